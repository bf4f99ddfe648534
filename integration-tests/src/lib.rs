//! The test world: real processes, end to end, stock interop, chaos, tidy checks and benches.
