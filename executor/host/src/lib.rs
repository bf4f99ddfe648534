//! This machine's processes, terminals and files; no network protocol.
