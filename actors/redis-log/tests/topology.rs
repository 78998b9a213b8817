//! Sentinels that choose another master, and a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the support of tests fails as tests do")]

mod support;

use freshet_feed::Rooms;
use freshet_feed::port::{EventLog, NewestByKey};
use freshet_kernel::task;
use freshet_redis_log::{Config, RedisEventLog};
use redis::Value;
use support::{
    ALL, Beside, PASSWORD, Redis, append_until_taken, channel, commit, event, follow, ids, keyed, until,
    until_health,
};

async fn append_one_by_one(log: &RedisEventLog, from: u64, to: u64) {
    for number in from..=to {
        append_until_taken(log, vec![event(&number.to_string())]).await;
    }
}

#[test]
fn sentinels_choose_another_master_and_nothing_is_lost() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("sentinel", 16500);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        // This instance keeps its connection to the old master until that says that it is one no more.
        let log = redis.log();
        append_one_by_one(&log, 1, 100).await;
        // Sentinels do not wait for the replica.
        until("the replica has it", async || {
            redis.command_at(16501, &["XLEN", "{freshet}:log"]).await == Ok(Value::Int(100))
        })
        .await;
        redis.does("failover").await;
        until("the old master is a replica", async || {
            let role = redis.command_at(16500, &["ROLE"]).await;
            format!("{role:?}").contains("slave")
        })
        .await;
        append_one_by_one(&log, 101, 200).await;
        listener.until(|listener| listener.events().len() == 200).await;
        let expected: Vec<_> = (1..=200).map(|number| (number, number.to_string())).collect();
        assert_eq!(listener.events(), expected);
        assert_eq!(listener.positions().len(), 1);
        until_health(&tree, None).await;
        tree.shutdown().await;
    });
}

#[test]
fn a_master_that_dies_under_load_leaves_one_order_to_all() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("sentinel", 16560);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        let (other_tree, other) = follow(redis.log(), &redis.config()).await;
        let log = redis.log();
        let appender = task::spawn("appender", async move { append_one_by_one(&log, 1, 600).await });
        listener.until(|listener| listener.events().len() >= 100).await;
        redis.signal_first("KILL");
        appender.await.unwrap();
        redis.log().append(vec![event("after")]).await.unwrap();
        for listener in [&listener, &other] {
            listener.until(|listener| listener.events().last().is_some_and(|(_, id)| id == "after")).await;
        }
        // The dead master may have acknowledged what its replica never had. What the log still holds, everybody has,
        // once and in its order.
        let page = redis.log().read_after(0, ALL).await.unwrap();
        let stored: Vec<_> =
            page.iter().map(|logged| (logged.offset, logged.event.event_id.clone())).collect();
        assert!(stored.len() > 500, "{} events are left", stored.len());
        assert_eq!(listener.held(), stored);
        assert_eq!(other.held(), stored);
        let epoch = redis.log().bounds().await.unwrap().epoch;
        for (tree, listener) in [(&tree, &listener), (&other_tree, &other)] {
            assert_eq!(listener.positions().last().unwrap().epoch, epoch);
            until_health(tree, None).await;
            tree.shutdown().await;
        }
    });
}

#[test]
fn a_cluster_keeps_a_log_on_one_of_its_servers() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("cluster", 16520);
        // Three prefixes: at least one of them lives on a server that the URL does not name first.
        for prefix in ["freshet", "two", "three"] {
            let config = Config { prefix: prefix.to_owned(), ..redis.config() };
            let log = RedisEventLog::new(redis.server(), &config);
            let (tree, listener) = follow(redis.log_named(prefix), &config).await;
            log.append(vec![commit("a", 1), keyed("b", "x", Some("r")), event("c")]).await.unwrap();
            log.append(vec![commit("a", 1), event("d")]).await.unwrap();
            listener.until(|listener| listener.events().len() == 4).await;
            assert_eq!(ids(&log.read_after(0, ALL).await.unwrap()), ["a", "b", "c", "d"]);
            assert_eq!(log.locate("c".to_owned()).await, Ok(Some(3)));
            let request = NewestByKey {
                channel: channel("stock"),
                rooms: Rooms::Only(vec!["r".into()]),
                appended_since: None,
                max_keys: 10,
            };
            assert_eq!(log.newest_by_key(request).await.unwrap().offsets, [2]);
            tree.shutdown().await;
        }
        // Ends and begins, as by a rolling upgrade of all servers.
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        let log = redis.log();
        redis.does("restart").await;
        append_until_taken(&log, vec![event("e")]).await;
        listener.until(|listener| listener.events() == [(5, "e".to_owned())]).await;
        tree.shutdown().await;
    });
}

#[test]
fn a_replica_takes_over_the_log_in_a_cluster() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("cluster", 16580);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        let log = redis.log();
        append_one_by_one(&log, 1, 100).await;

        // A replica joins that follows the master of the log.
        let directory = tempfile::tempdir().unwrap();
        let options = ["--port", "16583", "--cluster-enabled", "yes", "--cluster-port", "16593"];
        let login = ["--requirepass", PASSWORD, "--masterauth", PASSWORD, "--cluster-node-timeout", "2000"];
        let _replica = Beside::start(&[&options[..], &login].concat(), directory.path());
        until("the replica answers", async || redis.command_at(16583, &["PING"]).await.is_ok()).await;
        let mut master = None;
        for port in 16580..=16582 {
            if redis.command_at(port, &["EXISTS", "{freshet}:log"]).await == Ok(Value::Int(1)) {
                master = Some(port);
            }
        }
        let Ok(Value::BulkString(master)) = redis.command_at(master.unwrap(), &["CLUSTER", "MYID"]).await
        else {
            panic!()
        };
        let master = String::from_utf8(master).unwrap();
        redis.command_at(16583, &["CLUSTER", "MEET", "127.0.0.1", "16580", "16590"]).await.unwrap();
        until("the replica follows", async || {
            redis.command_at(16583, &["CLUSTER", "REPLICATE", &master]).await.is_ok()
        })
        .await;
        until("the replica has it", async || {
            let info = redis.command_at(16583, &["INFO", "replication"]).await;
            matches!(info, Ok(Value::BulkString(info)) if String::from_utf8_lossy(&info).contains("link_status:up"))
        })
        .await;

        let appender = task::spawn("appender", async move { append_one_by_one(&log, 101, 400).await });
        listener.until(|listener| listener.events().len() >= 150).await;
        until("the failover begins", async || {
            redis.command_at(16583, &["CLUSTER", "FAILOVER"]).await.is_ok()
        })
        .await;
        appender.await.unwrap();
        until("the replica leads", async || {
            format!("{:?}", redis.command_at(16583, &["ROLE"]).await).contains("master")
        })
        .await;
        append_until_taken(&redis.log(), vec![event("401")]).await;
        listener.until(|listener| listener.events().len() == 401).await;
        // A cluster's planned failover hands over all that was written.
        let expected: Vec<_> = (1..=401).map(|number| (number, number.to_string())).collect();
        assert_eq!(listener.events(), expected);
        assert_eq!(listener.positions().len(), 1);
        until_health(&tree, None).await;
        tree.shutdown().await;
    });
}
