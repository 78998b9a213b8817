//! ActiveMQ Classic.

use std::sync::Arc;

use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::config::{Flavour, Tls};

use crate::producer::Producer;
use crate::service::{Service, topic};
use crate::stories::{self, Subscriber};

fn shared() -> Arc<Service> {
    Service::shared(Flavour::ActivemqClassic)
}

#[tokio::test]
async fn a_broker_restart_loses_nothing() {
    stories::a_broker_restart_loses_nothing(Service::start(Flavour::ActivemqClassic)).await;
}

#[tokio::test]
async fn a_durable_subscription_gets_what_it_missed() {
    stories::a_durable_subscription_gets_what_it_missed(shared()).await;
}

#[tokio::test]
async fn a_crash_before_the_acknowledgement_brings_the_messages_again() {
    stories::a_crash_before_the_acknowledgement_brings_the_messages_again(shared()).await;
}

#[tokio::test]
async fn a_wrong_password_is_a_state() {
    stories::a_wrong_password_is_a_state(shared()).await;
}

#[tokio::test]
async fn what_is_no_event_is_buried_byte_for_byte() {
    stories::what_is_no_event_is_buried_byte_for_byte(shared()).await;
}

#[tokio::test]
async fn bodies_of_ten_megabytes_are_buried() {
    stories::bodies_of_ten_megabytes_are_buried(shared()).await;
}

#[tokio::test]
async fn a_half_open_connection_is_left() {
    stories::a_half_open_connection_is_left(shared()).await;
}

#[tokio::test]
async fn a_second_instance_with_the_same_client_id_waits_for_its_turn() {
    let service = shared();
    let test = "duplicate";
    let first = Subscriber::new(service.config(test));
    let second = Subscriber::new(service.config(test));
    let story = async {
        first.subscribed().await;
        let refused = async {
            second.recorder.reached("client_id_in_use").await;
            let mut producer = Producer::connect(service.port).await.unwrap();
            producer.send(&topic(test), [&b"event"[..]]).await.unwrap();
            first.store.stored(1).await;
        };
        second.until(refused).await;
    };
    first.until(story).await;
    assert_eq!(first.recorder.codes(), ["connecting", "healthy"], "the first is undisturbed");
    assert_eq!(second.state().code, Some("client_id_in_use"));
    // The first is gone, and the second gets in without a restart.
    second.until(second.subscribed()).await;
    assert_eq!(second.state().code, None);
}

#[tokio::test]
async fn the_standby_is_used_when_the_primary_is_down() {
    let service = shared();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = service.config("failover");
    config.brokers.insert(0, nobody.to_string());
    let standby = config.brokers[1].clone();
    let subscriber = Subscriber::new(config);
    subscriber.until(subscriber.subscribed()).await;
    assert_eq!(subscriber.recorder.codes(), ["connecting", "connection_refused", "healthy"]);
    assert_eq!(subscriber.state().broker, standby);
}

fn over_tls(service: &Service, test: &str, ca_file: &str) -> Config {
    Config {
        brokers: vec![format!("localhost:{}", service.tls_port)],
        tls: Tls { enabled: true, ca_file: ca_file.to_owned(), server_name: String::new() },
        ..service.config(test)
    }
}

#[tokio::test]
async fn tls_with_the_brokers_authority_works() {
    let service = shared();
    let test = "tls";
    let authority = service.authority();
    let subscriber = Subscriber::new(over_tls(&service, test, authority.to_str().unwrap()));
    subscriber
        .until_stopped(async {
            subscriber.subscribed().await;
            let mut producer = Producer::connect(service.port).await.unwrap();
            producer.send(&topic(test), [&b"event"[..]]).await.unwrap();
            subscriber.store.stored(1).await;
        })
        .await;
    assert_eq!(subscriber.recorder.codes(), ["connecting", "healthy"]);
    assert_eq!(subscriber.state().acknowledged, 1);
}

#[tokio::test]
async fn tls_with_a_stranger_is_refused() {
    let service = shared();
    let authority = service.authority();
    let authority = authority.to_str().unwrap();
    let system_authorities = over_tls(&service, "tls_system", "");
    let mut other_name = over_tls(&service, "tls_name", authority);
    other_name.tls.server_name = "broker.example".into();
    let no_file = over_tls(&service, "tls_file", "/no/such/file.pem");
    let mut no_tls = over_tls(&service, "tls_plain", authority);
    no_tls.brokers = vec![format!("localhost:{}", service.port)];
    // ActiveMQ's plain port waits for more bytes of what it takes for a frame.
    no_tls.connect_timeout_millis = 1000;
    for (config, codes) in [
        (system_authorities, &["tls_failed"][..]),
        (other_name, &["tls_failed"]),
        (no_file, &["tls_failed"]),
        (no_tls, &["tls_failed", "connect_timed_out"]),
    ] {
        let subscriber = Subscriber::new(config);
        subscriber.until(subscriber.recorder.declared(2)).await;
        let state = subscriber.state();
        assert!(codes.contains(&state.code.unwrap()), "{state:?}");
    }
}
