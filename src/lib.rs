//! Freshet, the daemon: command line, configuration, HTTP, and the building of the tree.
