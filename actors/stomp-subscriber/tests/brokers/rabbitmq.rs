//! RabbitMQ with its STOMP plugin.

use std::sync::Arc;

use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::config::Flavour;

use crate::service::Service;
use crate::stories::{self, Subscriber};

fn shared() -> Arc<Service> {
    Service::shared(Flavour::Rabbitmq)
}

#[tokio::test]
async fn a_broker_restart_loses_nothing() {
    stories::a_broker_restart_loses_nothing(Service::start(Flavour::Rabbitmq)).await;
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
async fn a_destination_that_the_broker_does_not_know_is_a_state() {
    let service = shared();
    let config = Config { destination: "/nonsense/x".into(), ..service.config("destination") };
    let subscriber = Subscriber::new(config);
    subscriber.until(subscriber.recorder.reached("destination_refused")).await;
    assert_eq!(subscriber.state().code, Some("destination_refused"));
}
