//! One executor's connections, of which a request takes the next that has room.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ringgate_runtime::{BufferPool, Task, sleep, spawn_as};

use super::{Link, Operation, Plan};
use crate::engine::{Outstanding, unless_told};
use crate::measure::Window;
use crate::plan::Common;
use crate::result::errors::CONNECT_FAILED;
use crate::scenario::SetupError;
use crate::stop::Stop;

/// Before a connection that was lost is made again, and between two looks for requests without an answer.
const RETRY: Duration = Duration::from_millis(100);

pub struct Pool {
    plan: Plan,
    operation: Operation,
    common: Rc<Common>,
    buffers: BufferPool,
    /// By connection; `None` while it is made again.
    links: RefCell<Vec<Option<Rc<Link>>>>,
    next: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
    tasks: RefCell<Vec<Task<()>>>,
    /// Of the closed loop: an answer is followed by the next request until then.
    again_until: Cell<Option<Instant>>,
    closed_loop: bool,
    outstanding: RefCell<Option<Outstanding>>,
}

impl Pool {
    pub fn new(plan: Plan, operation: Operation, common: Rc<Common>, closed_loop: bool) -> Rc<Pool> {
        Rc::new(Pool {
            plan,
            operation,
            common,
            buffers: BufferPool::new(),
            links: RefCell::default(),
            next: Cell::new(0),
            waiting: RefCell::default(),
            tasks: RefCell::default(),
            again_until: Cell::new(None),
            closed_loop,
            outstanding: RefCell::default(),
        })
    }

    /// Makes all connections, and their tasks.
    pub async fn connect(pool: &Rc<Pool>, addresses: &[SocketAddr]) -> Result<(), SetupError> {
        for (at, address) in addresses.iter().enumerate() {
            let link = pool
                .link(*address)
                .await
                .map_err(|error| SetupError(format!("connection {} to {address}: {error}", at + 1)))?;
            pool.links.borrow_mut().push(Some(Rc::new(link)));
            let task = spawn_as("connection", keep(pool.clone(), at, *address));
            pool.tasks.borrow_mut().push(task);
        }
        let task = spawn_as("time-outs", time_out(pool.clone()));
        pool.tasks.borrow_mut().push(task);
        Ok(())
    }

    async fn link(&self, address: SocketAddr) -> std::io::Result<Link> {
        Link::connect(address, &self.plan, &self.operation, self.common.request_timeout).await
    }

    /// Waits for a connection with room, in turn.
    pub async fn with_room(&self) -> Rc<Link> {
        poll_fn(|cx| match self.take_turn() {
            Some(link) => Poll::Ready(link),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn take_turn(&self) -> Option<Rc<Link>> {
        let links = self.links.borrow();
        let (first, count) = (self.next.get(), links.len());
        for step in 0..count {
            let at = (first + step) % count;
            if let Some(link) = &links[at]
                && !link.is_closed()
                && link.in_flight() < self.common.in_flight
            {
                self.next.set((at + 1) % count);
                return Some(link.clone());
            }
        }
        None
    }

    fn room(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Keeps every connection full until the window ends.
    pub async fn closed_loop(&self, window: Window, stop: &Stop, outstanding: &Outstanding) {
        self.again_until.set(Some(window.end));
        *self.outstanding.borrow_mut() = Some(outstanding.clone());
        let links: Vec<Rc<Link>> = self.links.borrow().iter().flatten().cloned().collect();
        links.iter().for_each(|link| self.fill(link));
        let _ = unless_told(stop, ringgate_runtime::sleep_until(window.end)).await;
        self.stop_sending();
    }

    /// Of the closed loop: as many requests as the connection has room for, each meant to be sent now.
    fn fill(&self, link: &Link) {
        let outstanding = self.outstanding.borrow();
        let (Some(outstanding), Some(until)) = (outstanding.as_ref(), self.again_until.get()) else { return };
        let now = Instant::now();
        while now < until && link.in_flight() < self.common.in_flight {
            let Some(permit) = outstanding.try_enter() else { return };
            link.submit(now, Some(permit));
        }
    }

    /// Answers are followed by nothing from now on.
    pub fn stop_sending(&self) {
        self.again_until.set(None);
    }

    /// Closes all connections.
    pub async fn close(&self) {
        for task in self.tasks.take() {
            task.cancel().await;
        }
        self.links.borrow_mut().clear();
    }
}

/// One connection's life: when it is lost, another is made.
async fn keep(pool: Rc<Pool>, at: usize, address: SocketAddr) {
    loop {
        let link = pool.links.borrow()[at].clone();
        if let Some(link) = link {
            let writer = {
                let link = link.clone();
                spawn_as("writer", async move { link.write().await })
            };
            if pool.closed_loop {
                pool.fill(&link);
            }
            link.read(&pool.buffers, |_| if pool.closed_loop { pool.fill(&link) } else { pool.room() }).await;
            writer.cancel().await;
            pool.links.borrow_mut()[at] = None;
        }
        sleep(RETRY).await;
        match pool.link(address).await {
            Ok(link) => {
                pool.links.borrow_mut()[at] = Some(Rc::new(link));
                pool.room();
            }
            Err(_) => pool.operation.error(CONNECT_FAILED, Instant::now()),
        }
    }
}

async fn time_out(pool: Rc<Pool>) {
    loop {
        sleep(RETRY).await;
        let links: Vec<Rc<Link>> = pool.links.borrow().iter().flatten().cloned().collect();
        links.iter().for_each(|link| link.time_out(pool.common.request_timeout));
    }
}
