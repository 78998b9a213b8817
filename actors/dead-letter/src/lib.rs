//! The dead-letter room: what could not be processed, kept with its reason.
