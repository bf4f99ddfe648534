//! The exec-server JSON-RPC contract: envelope, methods, paths and the call table, without IO.
