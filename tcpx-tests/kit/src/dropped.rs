#![allow(unsafe_code)]
//! Remains of values in memory when they have been dropped: secrets must leave none.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;

/// Bytes of the memory of a value.
#[derive(Clone, Debug)]
pub struct Remains {
    /// As long as the value lives.
    pub before: Vec<u8>,
    /// When it has been dropped where it was.
    pub after: Vec<u8>,
}

impl Remains {
    /// Drops a value, and has a look at its memory before and after. What the value has elsewhere,
    /// behind a pointer, is not looked at.
    ///
    /// # Panics
    /// When the system does not show this process its own memory.
    pub fn of<T>(value: T) -> Self {
        let mut place = Box::new(ManuallyDrop::new(value));
        let before = read(&raw const *place);
        // SAFETY: it is dropped once, and nothing uses it as what it was. Its memory is freed
        // later.
        unsafe { ManuallyDrop::drop(&mut place) };
        let after = read(&raw const *place);
        Self { before, after }
    }

    /// Checks that this secret was there, and that not even half of it has remained.
    ///
    /// # Panics
    /// When it was not there, or is there still.
    pub fn assert_zeroed(&self, secret: &[u8]) {
        let has = |memory: &[u8], part: &[u8]| memory.windows(part.len()).any(|it| it == part);
        assert!(secret.len() >= 8 && has(&self.before, secret), "it was not there");
        for half in secret.chunks_exact(secret.len() / 2) {
            assert!(!has(&self.after, half), "it is still there");
        }
    }
}

/// Reads the memory of a value as the system shows it: also bytes that belong to no field.
fn read<T>(value: *const T) -> Vec<u8> {
    let memory = File::open("/proc/self/mem").expect("a process reads its own memory");
    let mut bytes = vec![0; size_of::<T>()];
    let address = std::hint::black_box(value).expose_provenance();
    memory.read_exact_at(&mut bytes, address as u64).expect("the value is mapped");
    bytes
}

/// Checks that a text has no part of a secret, in no notation: hexadecimal digits, base64, numbers
/// in a list, or the bytes themselves.
///
/// # Panics
/// When it has one.
pub fn assert_not_shown(text: &str, secret: &[u8]) {
    assert!(secret.len() >= 12, "so few bytes may be there by chance");
    let lower = text.to_ascii_lowercase();
    for part in secret.windows(12) {
        let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!lower.contains(&hex), "hexadecimal digits of a secret: {text}");
        let numbers: Vec<String> = part.iter().map(u8::to_string).collect();
        assert!(!text.contains(&numbers.join(", ")), "numbers of a secret: {text}");
        let base64 = base64(part);
        assert!(!text.contains(&base64), "base64 of a secret: {text}");
        let is_text = text.as_bytes().windows(part.len()).any(|it| it == part);
        assert!(!is_text, "bytes of a secret: {text}");
    }
}

/// Returns the base64 of bytes whose number is a multiple of 3.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let number = group.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(number >> shift & 63) as usize]))
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = *b"\x01\x9fsecret bytes\xee\x7a";

    #[test]
    fn what_is_not_zeroed_is_found() {
        struct Zeroed([u8; 16]);
        impl Drop for Zeroed {
            fn drop(&mut self) {
                std::hint::black_box(&mut self.0).fill(0);
            }
        }
        Remains::of((7, Zeroed(SECRET))).assert_zeroed(&SECRET);
        let careless = Remains::of((7, SECRET));
        assert_eq!(careless.before, careless.after);
        assert!(std::panic::catch_unwind(|| careless.assert_zeroed(&SECRET)).is_err());
        let other = Remains::of(Zeroed([1; 16]));
        assert!(std::panic::catch_unwind(|| other.assert_zeroed(&SECRET)).is_err());
    }

    #[test]
    fn what_is_shown_is_found_in_each_notation() {
        let hex: String = SECRET.iter().map(|byte| format!("{byte:02X}")).collect();
        // By `printf '\x01\x9fsecret bytes\xee\x7a' | base64`.
        let base64 = "AZ9zZWNyZXQgYnl0ZXPueg==";
        let raw = String::from_utf8_lossy(&SECRET[2..14]).into_owned();
        for shown in [hex, format!("{SECRET:?}"), base64.to_owned(), raw] {
            let found = std::panic::catch_unwind(|| assert_not_shown(&shown, &SECRET));
            assert!(found.is_err(), "{shown}");
        }
        assert_not_shown("Secret(…) 01 9f", &SECRET);
    }
}
