//! Compiles `relay.proto` with a pure-Rust compiler, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../relay.proto");
    let descriptors = protox::compile(["relay.proto"], [".."])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
