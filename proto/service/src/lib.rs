//! The shell of a daemon: logs, metrics, health, TLS listeners, shutdown and drain.
