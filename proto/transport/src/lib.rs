//! Client side networking: registry calls, WebSocket links, TLS and the stream drivers.
