//! Calls and answers as byte strings.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::{
    Answer, Call, Entry, FileError, Links, Metadata, Target, Walk, WalkEntry, WalkOptions, WalkProblem,
};
use crate::sandbox::message::{Reader, Writer, broken};

pub(super) fn encode_call(call: &Call) -> Vec<u8> {
    let mut writer = Writer::default();
    match call {
        Call::Open(target) => put_target(writer.put("open"), target),
        Call::Create(target) => put_target(writer.put("create"), target),
        Call::CreateDirectory { target, recursive } => {
            put_target(writer.put("createDirectory"), target).put_flag(*recursive)
        }
        Call::Metadata(target) => put_target(writer.put("metadata"), target),
        Call::Canonicalize(path) => writer.put("canonicalize").put_text(path),
        Call::ReadDirectory(target) => put_target(writer.put("readDirectory"), target),
        Call::Remove {
            target,
            recursive,
            force,
        } => put_target(writer.put("remove"), target)
            .put_flag(*recursive)
            .put_flag(*force),
        Call::Copy {
            source,
            destination,
            recursive,
        } => writer
            .put("copy")
            .put_text(source)
            .put_text(destination)
            .put_flag(*recursive),
        Call::Walk { root, options } => writer
            .put("walk")
            .put_text(root)
            .put_number(options.max_depth as u64)
            .put_number(options.max_directories as u64)
            .put_number(options.max_entries as u64)
            .put_flag(options.follow_directory_symlinks)
            .put_flag(options.prune_hidden_directories),
    };
    writer.finish()
}

pub(super) fn decode_call(bytes: &[u8]) -> io::Result<Call> {
    let mut reader = Reader::new(bytes);
    Ok(match reader.take()? {
        b"open" => Call::Open(take_target(&mut reader)?),
        b"create" => Call::Create(take_target(&mut reader)?),
        b"createDirectory" => Call::CreateDirectory {
            target: take_target(&mut reader)?,
            recursive: reader.take_flag()?,
        },
        b"metadata" => Call::Metadata(take_target(&mut reader)?),
        b"canonicalize" => Call::Canonicalize(reader.take_path()?),
        b"readDirectory" => Call::ReadDirectory(take_target(&mut reader)?),
        b"remove" => Call::Remove {
            target: take_target(&mut reader)?,
            recursive: reader.take_flag()?,
            force: reader.take_flag()?,
        },
        b"copy" => Call::Copy {
            source: reader.take_path()?,
            destination: reader.take_path()?,
            recursive: reader.take_flag()?,
        },
        b"walk" => Call::Walk {
            root: reader.take_path()?,
            options: WalkOptions {
                max_depth: take_size(&mut reader)?,
                max_directories: take_size(&mut reader)?,
                max_entries: take_size(&mut reader)?,
                follow_directory_symlinks: reader.take_flag()?,
                prune_hidden_directories: reader.take_flag()?,
            },
        },
        _ => return Err(broken()),
    })
}

fn put_target<'a>(writer: &'a mut Writer, target: &Target) -> &'a mut Writer {
    writer.put_text(&target.path).put_flag(target.links == Links::Refuse)
}

fn take_target(reader: &mut Reader<'_>) -> io::Result<Target> {
    let path = reader.take_path()?;
    let links = if reader.take_flag()? {
        Links::Refuse
    } else {
        Links::Follow
    };
    Ok(Target::new(path, links))
}

fn take_size(reader: &mut Reader<'_>) -> io::Result<usize> {
    usize::try_from(reader.take_number()?).map_err(|_| broken())
}

pub(super) fn encode_answer(answer: Result<Answer, FileError>) -> (Vec<u8>, Option<File>) {
    let mut writer = Writer::default();
    let mut opened = None;
    match answer {
        Ok(Answer::Done) => {
            writer.put("done");
        }
        Ok(Answer::File(file)) => {
            writer.put("file");
            opened = Some(file);
        }
        Ok(Answer::Metadata(metadata)) => put_metadata(writer.put("metadata"), &metadata),
        Ok(Answer::Path(path)) => {
            writer.put("path").put_text(path);
        }
        Ok(Answer::Entries(entries)) => {
            writer.put("entries");
            for entry in entries {
                writer
                    .put_text(entry.name)
                    .put_flag(entry.is_directory)
                    .put_flag(entry.is_file);
            }
        }
        Ok(Answer::Walk(walk)) => put_walk(writer.put("walk"), &walk),
        Err(FileError::Io(error)) => match error.raw_os_error() {
            Some(code) => {
                writer.put("system").put_number(u64::from(code.unsigned_abs()));
            }
            None => {
                writer.put("failed").put_text(error.to_string());
            }
        },
        Err(error) => {
            writer.put("refused").put_text(error.to_string());
        }
    }
    (writer.finish(), opened)
}

pub(super) fn decode_answer(bytes: &[u8], file: Option<File>) -> Result<Answer, FileError> {
    let mut reader = Reader::new(bytes);
    Ok(match reader.take()? {
        b"done" => Answer::Done,
        b"file" => Answer::File(file.ok_or_else(broken)?),
        b"metadata" => Answer::Metadata(take_metadata(&mut reader)?),
        b"path" => Answer::Path(reader.take_path()?),
        b"entries" => {
            let mut entries = Vec::new();
            while !reader.is_empty() {
                entries.push(Entry {
                    name: reader.take_text()?,
                    is_directory: reader.take_flag()?,
                    is_file: reader.take_flag()?,
                });
            }
            Answer::Entries(entries)
        }
        b"walk" => Answer::Walk(take_walk(&mut reader)?),
        b"system" => {
            let code = i32::try_from(reader.take_number()?).map_err(|_| broken())?;
            return Err(io::Error::from_raw_os_error(code).into());
        }
        b"failed" => {
            let text = reader.take_text()?.to_string_lossy().into_owned();
            return Err(io::Error::other(text).into());
        }
        b"refused" => {
            let text = reader.take_text()?.to_string_lossy().into_owned();
            return Err(FileError::Refused(text));
        }
        _ => return Err(broken().into()),
    })
}

fn put_metadata(writer: &mut Writer, metadata: &Metadata) {
    writer
        .put_flag(metadata.is_directory)
        .put_flag(metadata.is_file)
        .put_flag(metadata.is_symlink)
        .put_number(metadata.size);
    put_time(writer, metadata.created);
    put_time(writer, metadata.modified);
}

fn take_metadata(reader: &mut Reader<'_>) -> io::Result<Metadata> {
    Ok(Metadata {
        is_directory: reader.take_flag()?,
        is_file: reader.take_flag()?,
        is_symlink: reader.take_flag()?,
        size: reader.take_number()?,
        created: take_time(reader)?,
        modified: take_time(reader)?,
    })
}

/// Whether it is known, whether it is after 1970, and how far from it in seconds and nanoseconds.
fn put_time(writer: &mut Writer, time: Option<SystemTime>) {
    writer.put_flag(time.is_some());
    let (is_after, distance) = match time.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH) {
        Ok(after) => (true, after),
        Err(before) => (false, before.duration()),
    };
    writer
        .put_flag(is_after)
        .put_number(distance.as_secs())
        .put_number(distance.subsec_nanos().into());
}

fn take_time(reader: &mut Reader<'_>) -> io::Result<Option<SystemTime>> {
    let (is_known, is_after) = (reader.take_flag()?, reader.take_flag()?);
    let seconds = Duration::from_secs(reader.take_number()?);
    let distance = seconds.saturating_add(Duration::from_nanos(reader.take_number()?));
    let time = if is_after {
        UNIX_EPOCH.checked_add(distance)
    } else {
        UNIX_EPOCH.checked_sub(distance)
    };
    Ok(time.filter(|_| is_known))
}

fn put_walk(writer: &mut Writer, walk: &Walk) {
    writer.put_flag(walk.is_truncated).put_number(walk.entries.len() as u64);
    for entry in &walk.entries {
        writer.put_text(&entry.path).put_flag(entry.is_directory);
    }
    for problem in &walk.problems {
        writer.put_text(&problem.path).put_text(&problem.message);
    }
}

fn take_walk(reader: &mut Reader<'_>) -> io::Result<Walk> {
    let mut walk = Walk {
        is_truncated: reader.take_flag()?,
        ..Walk::default()
    };
    for _ in 0..reader.take_number()? {
        walk.entries.push(WalkEntry {
            path: reader.take_path()?,
            is_directory: reader.take_flag()?,
        });
    }
    while !reader.is_empty() {
        walk.problems.push(WalkProblem {
            path: reader.take_path()?,
            message: reader.take_text()?.to_string_lossy().into_owned(),
        });
    }
    Ok(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_as_they_were() {
        let target = Target::new("/a b/\u{e4}", Links::Refuse);
        let options = WalkOptions {
            max_depth: 1,
            max_directories: 2,
            max_entries: 3,
            follow_directory_symlinks: true,
            prune_hidden_directories: false,
        };
        for call in [
            Call::Open(target.clone()),
            Call::Create(target.clone()),
            Call::CreateDirectory {
                target: target.clone(),
                recursive: true,
            },
            Call::Metadata("/x".into()),
            Call::Canonicalize("/x".into()),
            Call::ReadDirectory(target.clone()),
            Call::Remove {
                target,
                recursive: false,
                force: true,
            },
            Call::Copy {
                source: "/a".into(),
                destination: "/b".into(),
                recursive: true,
            },
            Call::Walk {
                root: "/r".into(),
                options,
            },
        ] {
            let bytes = encode_call(&call);
            assert_eq!(decode_call(&bytes).expect("a call"), call);
            assert!(decode_call(&bytes[..bytes.len() - 1]).is_err(), "{call:?}");
        }
    }

    fn there_and_back(answer: Result<Answer, FileError>) -> String {
        let (bytes, file) = encode_answer(answer);
        format!("{:?}", decode_answer(&bytes, file))
    }

    #[test]
    fn answers_come_back_as_they_were() {
        let metadata = Metadata {
            is_directory: true,
            is_file: false,
            is_symlink: true,
            size: 7,
            created: None,
            modified: UNIX_EPOCH.checked_sub(Duration::from_millis(1500)),
        };
        let walk = Walk {
            entries: vec![WalkEntry {
                path: "/e".into(),
                is_directory: true,
            }],
            problems: vec![WalkProblem {
                path: "/p".into(),
                message: "m".into(),
            }],
            is_truncated: true,
        };
        let entry = Entry {
            name: "n".into(),
            is_directory: false,
            is_file: true,
        };
        let gone = || io::Error::from_raw_os_error(2);
        for answer in [|| Ok(Answer::Done), || Err(FileError::Refused("no".into()))] {
            assert_eq!(there_and_back(answer()), format!("{:?}", answer()));
        }
        assert_eq!(
            there_and_back(Ok(Answer::Metadata(metadata))),
            format!("Ok(Metadata({metadata:?}))")
        );
        assert_eq!(there_and_back(Ok(Answer::Path("/x".into()))), "Ok(Path(\"/x\"))");
        assert_eq!(
            there_and_back(Ok(Answer::Entries(vec![entry.clone()]))),
            format!("Ok(Entries([{entry:?}]))")
        );
        assert_eq!(
            there_and_back(Ok(Answer::Walk(walk.clone()))),
            format!("Ok(Walk({walk:?}))")
        );
        assert_eq!(there_and_back(Err(gone().into())), format!("Err(Io({:?}))", gone()));
        assert!(decode_answer(&encode_answer(Ok(Answer::Done)).0[..3], None).is_err());
        let mut lonely = Writer::default();
        lonely.put("file");
        assert!(
            decode_answer(&lonely.finish(), None).is_err(),
            "the file itself is missing"
        );
    }
}
