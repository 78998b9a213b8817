//! Appends to the log, gives each event its position, renders it once, one message per worker thread.
