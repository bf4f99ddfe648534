//! The end-to-end channel: hybrid-IK Noise, records, messages and stream state, without IO.
