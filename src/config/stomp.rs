//! What the subscriptions of `[[stomp]]` may not have in common.

use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::config::Flavour;

/// Pairs of subscriptions that would disturb each other: the key's path in the list, and what to do.
pub(super) fn clashes(subscriptions: &[Config]) -> Vec<(Vec<String>, String)> {
    let mut problems = Vec::new();
    for (index, subscription) in subscriptions.iter().enumerate() {
        let earlier = &subscriptions[..index];
        if earlier.iter().any(|other| other.name == subscription.name) {
            let message = "another subscription has this name already; give each a name of its own";
            problems.push((vec![index.to_string(), "name".to_owned()], message.to_owned()));
        }
        // RabbitMQ takes any number of connections with one client id; the others refuse the second.
        let one_connection_for_each_id =
            subscription.flavour != Flavour::Rabbitmq && !subscription.client_id.is_empty();
        let same_client = |other: &Config| {
            other.client_id == subscription.client_id
                && other.brokers.iter().any(|broker| subscription.brokers.contains(broker))
        };
        if one_connection_for_each_id && earlier.iter().any(same_client) {
            let message = "another subscription to this broker has this client id already, and the broker accepts one \
                           connection for each; give each a client id of its own";
            problems.push((vec![index.to_string(), "client_id".to_owned()], message.to_owned()));
        }
    }
    problems
}
