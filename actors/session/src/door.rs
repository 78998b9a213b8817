//! Takes the socket of a connection out of actix-http once the head of a response is on the wire.
//!
//! A stream lives for hours, and for every event actix-http would wake a task, poll a body and frame a chunk, and it
//! keeps two buffers for as long. So it reads the request and writes the head; from then on the session owns the
//! socket. [`Door`] is what actix-http takes for a socket. When the owner of the connection has asked for it
//! (`DoorHandle::hand_over`) and everything that was written is flushed, the real socket goes to its taker, and
//! actix-http sees a connection whose client has left.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type Taker = Box<dyn FnOnce(TcpStream)>;

#[derive(Default)]
struct Shared {
    socket: RefCell<Option<TcpStream>>,
    taker: RefCell<Option<Taker>>,
}

/// A socket that may be taken away from whoever reads and writes through here.
pub struct Door(Rc<Shared>);

/// Asks for the socket. One is put among the data of each connection.
#[derive(Clone)]
pub struct DoorHandle(Rc<Shared>);

impl Door {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self(Rc::new(Shared { socket: RefCell::new(Some(socket)), taker: RefCell::default() }))
    }

    pub(crate) fn handle(&self) -> DoorHandle {
        DoorHandle(Rc::clone(&self.0))
    }

    fn with_socket<T>(&self, then: impl FnOnce(Pin<&mut TcpStream>) -> T, taken: T) -> T {
        self.0.socket.borrow_mut().as_mut().map_or(taken, |socket| then(Pin::new(socket)))
    }
}

impl DoorHandle {
    /// Gives the socket to `taker` when what is written before is flushed. The taker is dropped unused when the
    /// connection ends before that.
    pub(crate) fn hand_over(&self, taker: impl FnOnce(TcpStream) + 'static) {
        self.0.taker.replace(Some(Box::new(taker)));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // A handle may outlive the connection, and its taker must not.
        self.0.taker.take();
    }
}

impl AsyncRead for Door {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with_socket(|socket| socket.poll_read(context, buffer), Poll::Ready(Ok(())))
    }
}

impl AsyncWrite for Door {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with_socket(|socket| socket.poll_write(context, bytes), Poll::Ready(Ok(bytes.len())))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.with_socket(|socket| socket.poll_flush(context), Poll::Ready(Ok(()))))?;
        if let Some(taker) = self.0.taker.take()
            && let Some(socket) = self.0.socket.take()
        {
            taker(socket);
            // It is read again, and ends.
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with_socket(|socket| socket.poll_shutdown(context), Poll::Ready(Ok(())))
    }
}
