//! The harness: a client library and command line for remote executors.
