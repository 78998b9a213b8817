//! The embedded log passes the contract.

mod contract;

use std::cell::RefCell;

use freshet_event_log::{Config, DirectoryLock, Retention};
use freshet_kernel::{SupervisorSpec, start};

#[test]
fn the_embedded_log_passes_the_contract() {
    actix_rt::System::new().block_on(async {
        let running = RefCell::new(Vec::new());
        contract::contract(async || {
            let directory = tempfile::tempdir().unwrap();
            let lock = DirectoryLock::acquire(directory.path()).unwrap();
            let (specification, log) =
                freshet_event_log::open(&Config::default(), &Retention::default(), &lock).unwrap();
            let tree = start(SupervisorSpec::new("root").child(specification));
            running.borrow_mut().push((tree, lock, directory));
            log
        })
        .await;
        for (tree, _lock, _directory) in running.into_inner() {
            tree.shutdown().await;
        }
    });
}
