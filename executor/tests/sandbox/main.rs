//! Real sandboxes, made by the executor's own executable.

mod escapes;
mod files;
mod landlock;
mod lifetimes;
mod network;
mod processes;
mod support;
mod unprivileged;
