//! The executor: serves processes and files of this machine over end-to-end encrypted streams.
