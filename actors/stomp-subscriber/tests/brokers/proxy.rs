//! A proxy between the room and a broker, whose connections can fall silent without being closed: what a lost network,
//! a sleeping machine or a forgetful firewall looks like.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    listener: TcpListener,
    broker_port: u16,
    /// Set to true, it silences the connections that are open then; later ones work.
    pub mute: watch::Sender<bool>,
    /// How often the broker sent something on the connection on which it did so most often.
    pub broker_sent: watch::Sender<usize>,
}

impl Proxy {
    pub async fn listen(broker_port: u16) -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            broker_port,
            mute: watch::Sender::new(false),
            broker_sent: watch::Sender::new(0),
        }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// Relays until it is dropped.
    pub async fn run(&self) {
        let mut relays = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    relays.push(self.relay(accepted.unwrap().0));
                }
                Some(()) = relays.next() => {}
            }
        }
    }

    async fn relay(&self, client: TcpStream) {
        let can_be_muted = !*self.mute.borrow();
        let Ok(broker) = TcpStream::connect(("127.0.0.1", self.broker_port)).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_broker, mut to_broker) = broker.into_split();
        let mut mute = self.mute.subscribe();
        tokio::select! {
            () = copy(&mut from_client, &mut to_broker, None) => {}
            () = copy(&mut from_broker, &mut to_client, Some(&self.broker_sent)) => {}
            _ = mute.wait_for(|&mute| mute && can_be_muted) => {
                // The sockets stay open, and nothing passes any more.
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn copy(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, count: Option<&watch::Sender<usize>>) {
    let mut buffer = [0; 65_536];
    let mut reads = 0;
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        if let Some(count) = count {
            reads += 1;
            count.send_modify(|count| *count = reads.max(*count));
        }
    }
}
