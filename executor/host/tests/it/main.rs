//! Real processes and real files.

mod files;
mod process;
mod process_output;
mod support;
