//! Many temporary actors under one bound.

use freshet_kernel::{Nursery, NurseryFull, stats};

use crate::stage::*;

#[test]
fn a_nursery_is_bounded_and_gives_places_back() {
    play(async {
        let diary = Diary::default();
        let nursery = Nursery::new("nurseries-bound", 2);
        let first = nursery.start(Guest::polite(&diary)).unwrap();
        let second = nursery.start(Guest::polite(&diary)).unwrap();
        assert_eq!(nursery.start(Guest::polite(&diary)).unwrap_err(), NurseryFull { limit: 2 });
        assert_eq!(nursery.count(), 2);
        assert_eq!(first.send(Add(3)).await.unwrap(), 3);

        drop(first);
        settle().await;
        assert_eq!(nursery.count(), 1, "it ended with its last address");
        let _third = nursery.start(Guest::polite(&diary)).unwrap();
        assert!(second.connected());
        let class = stats::classes()["nurseries-bound"];
        assert_eq!((class.started, class.running), (3, 2));
    });
}

#[test]
fn panics_of_temporary_actors_are_caught_and_counted() {
    play(async {
        let diary = Diary::default();
        let nursery = Nursery::new("nurseries-panic", 5);
        let guest = nursery.start(Guest::polite(&diary)).unwrap();
        let neighbour = nursery.start(Guest::polite(&diary)).unwrap();
        assert!(guest.send(Break).await.is_err());
        settle().await;
        let stillborn = nursery.start(|| -> Guest { panic!("factory broke") }).unwrap();
        assert!(stillborn.send(Add(1)).await.is_err());
        settle().await;
        assert_eq!(neighbour.send(Add(1)).await.unwrap(), 1);
        assert_eq!(nursery.count(), 1);
        assert_eq!(stats::classes()["nurseries-panic"].panics, 2);
        assert_eq!(diary.read(), ["guest started", "guest started"], "no hooks after a panic");
    });
}

#[test]
fn the_bound_holds_over_all_threads() {
    let nursery = Nursery::new("nurseries-threads", 7);
    let started: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    play(async {
                        let diary = Diary::default();
                        let kept: Vec<_> =
                            (0..5).filter_map(|_| nursery.start(Guest::polite(&diary)).ok()).collect();
                        kept.len()
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((7..=20).contains(&started), "{started}");
    assert_eq!(nursery.count(), 0, "places come back also when a system ends under its actors");
    assert_eq!(stats::classes()["nurseries-threads"].running, 0);
}
