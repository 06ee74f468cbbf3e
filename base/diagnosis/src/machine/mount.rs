//! The mounts of `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// Mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    pub(crate) is_noexec: bool,
}

/// Returns the mount on which `path` lies: the deepest one. Of several mounts at one point, the
/// last one counts, which covers the others.
pub(crate) fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    mountinfo
        .lines()
        .filter_map(parse_line)
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.iter().count())
}

/// Parses the fields, from 0: id, parent, device, root, mount point, options, optional fields, `-`,
/// type, source, super options.
fn parse_line(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    let point = unescape(fields.nth(4)?);
    let options = fields.next()?;
    let super_options = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(2));
    let is_noexec = [Some(options), super_options]
        .into_iter()
        .flatten()
        .any(|options| options.split(',').any(|option| option == "noexec"));
    Some(Mount { point: PathBuf::from(point), is_noexec })
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits.filter(u8::is_ascii) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTINFO: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 8:2 / /var/lib rw,nosuid,nodev,noexec shared:9 - ext4 /dev/sda2 rw
31 30 8:3 / /var/lib/tcpx\\040run rw - tmpfs tmpfs rw
32 22 0:40 / /opt rw - overlay overlay rw,noexec,lowerdir=/a
broken line";

    #[test]
    fn the_deepest_mount_counts() {
        let noexec = |path: &str| mount_of(MOUNTINFO, Path::new(path)).map(|mount| mount.is_noexec);
        assert_eq!(noexec("/usr/local/tcpx/lib64/libnccl-net-tcpx.so"), Some(false));
        assert_eq!(noexec("/var/lib/tcpx/lib64/libnccl-net.so"), Some(true));
        assert_eq!(noexec("/var/lib/tcpx run/libnccl-net.so"), Some(false));
        assert_eq!(noexec("/var/library/x.so"), Some(false));
        assert_eq!(noexec("/opt/x.so"), Some(true));
        assert_eq!(mount_of("", Path::new("/x")), None);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape("/a\\9\\"), "/a\\9\\");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String, path in "(/[a-z]{1,3}){0,4}") {
            let _ = mount_of(&text, Path::new(&path));
            let _ = unescape(&text);
        }
    }
}
