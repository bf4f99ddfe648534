//! A machine to break out to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command};

use nix::libc;
use rendezvous_host::sandbox::{Access, Entry, FileAccess, Intent, Place, Profile};

use crate::support::World;

/// What may be attacked: files, a process, and sockets.
pub(crate) struct Scene {
    pub(crate) world: World,
    victim: Child,
    tcp: TcpListener,
    abstract_name: String,
    _listeners: (UnixListener, UnixListener, UnixDatagram),
}

impl Scene {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let (inside, outside) = (&world.inside, &world.outside);
        for folder in [".git/hooks", "keep/deep", "denied"] {
            std::fs::create_dir_all(inside.join(folder)).expect("made");
        }
        for file in [".git/config", "keep/deep/file", "denied/file", "x.env"] {
            std::fs::write(inside.join(file), "inside").expect("written");
        }
        for file in ["victim", "secret"] {
            std::fs::write(outside.join(file), file).expect("written");
        }
        let id = outside.join("id");
        std::fs::copy("/usr/bin/id", &id).expect("copied");
        // Without this the program is harmless, which is fine where nobody expects it to work.
        let _not_root = std::os::unix::fs::chown(&id, Some(1), None);
        std::fs::set_permissions(&id, std::fs::Permissions::from_mode(0o4755)).expect("permitted");
        let victim = Command::new("sleep")
            .arg("600")
            .env("VICTIM_SECRET", "1")
            .spawn()
            .expect("a victim");
        let abstract_name = format!("victim-{}", victim.id());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("an address");
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            _listeners: (
                UnixListener::bind_addr(&address).expect("a socket"),
                UnixListener::bind(outside.join("sock")).expect("a socket"),
                UnixDatagram::bind(outside.join("dgram")).expect("a socket"),
            ),
            abstract_name,
            victim,
            world,
        }
    }

    /// Everything can be read and the workspace be written, with exceptions.
    pub(crate) fn intent(&self) -> Intent {
        let mut intent = self.world.workspace_write();
        let Profile::Managed {
            files: FileAccess::Restricted { entries, .. },
            ..
        } = &mut intent.profile
        else {
            panic!("a restricted profile");
        };
        let inside = |path: &str| Place::Path(self.world.inside.join(path));
        for (place, access) in [
            (inside("keep/deep"), Access::Read),
            (inside("denied"), Access::Deny),
            (Place::Path(self.world.outside.join("secret")), Access::Deny),
            (Place::Pattern("**/*.env".into()), Access::Deny),
        ] {
            entries.push(Entry {
                place,
                access,
                skip_missing: false,
            });
        }
        intent
    }

    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let port = self.tcp.local_addr().expect("an address").port();
        [
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("OUT", self.world.outside.display().to_string()),
            ("VICTIM", self.victim.id().to_string()),
            ("PORT", port.to_string()),
            ("ABSTRACT", self.abstract_name.clone()),
            ("PTRACE", libc::SYS_ptrace.to_string()),
            ("READV", libc::SYS_process_vm_readv.to_string()),
            ("KEYCTL", libc::SYS_keyctl.to_string()),
            ("CLONE3", libc::SYS_clone3.to_string()),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
    }

    /// What no program may change: all that is outside, what is protected inside, and that the victim lives.
    pub(crate) fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        paint(&self.world.outside, &mut picture);
        for name in [".git", ".agents", ".codex", "keep", "denied", "x.env"] {
            paint(&self.world.inside.join(name), &mut picture);
        }
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.victim.id())).unwrap_or_default();
        picture.insert("victim".into(), state.split(' ').nth(2).unwrap_or("gone").to_owned());
        picture
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _gone = self.victim.kill();
        let _reaped = self.victim.wait();
    }
}

fn paint(path: &Path, picture: &mut BTreeMap<String, String>) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    let content = std::fs::read(path).unwrap_or_default();
    let size = content.len();
    let look = format!("{:o} {} {} {size}", metadata.mode(), metadata.uid(), metadata.nlink());
    picture.insert(path.display().to_string(), look);
    if metadata.is_dir() {
        for entry in path.read_dir().expect("a folder") {
            paint(&entry.expect("an entry").path(), picture);
        }
    }
}
