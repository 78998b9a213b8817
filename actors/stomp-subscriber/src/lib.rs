//! STOMP 1.2 subscriptions to ActiveMQ Classic, Artemis and RabbitMQ.
