//! Stories of supervised actors. Time is simulated: nothing here sleeps in real time.

mod mailboxes;
mod nurseries;
mod panics;
mod progress;
mod restarts;
mod shutdowns;
mod stage;
mod strategies;
mod tasks;
mod threads;
mod views;
