//! Stories of supervised actors. Time is simulated: nothing here sleeps in real time.

mod panics;
mod stage;
