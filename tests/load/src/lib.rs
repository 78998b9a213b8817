//! Load tests.
