#![allow(unsafe_code)]
//! Loading of a plugin by path.

use core::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use crate::encryption::{CommEncryptionV1, ENCRYPTION_SYMBOL, EncryptionEntries};
use crate::health::{CommHealthV1, HEALTH_SYMBOL, HealthEntries};
use crate::readiness::{CommPollV1, READINESS_SYMBOL, ReadinessEntries};
use crate::table::{
    AcceptFn, CloseFn, ConnectFn, DeregMrFn, DevicesFn, GetDeviceMrFn, GetPropertiesFn, IflushFn,
    InitFn, IrecvConsumedFn, IrecvFn, IsendFn, ListenFn, NcclNetV7, RegMrFn, TestFn,
};

/// Name of the data symbol that is the table.
pub const SYMBOL: &str = "ncclNetPlugin_v7";

/// Longest plugin name that is read. A longer name counts as no name at all.
const MAX_NAME_BYTES: usize = 256;

/// Reason why a file could not serve as a plugin. Each cause has its own cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file.
    #[error("plugin {path}: no such file; install the plugin there or name another path")]
    Missing {
        /// Requested file.
        path: PathBuf,
    },
    /// The dynamic linker refused the file.
    #[error("plugin {path}: cannot be loaded: {reason}; check its libraries with `ldd {path}`")]
    Open {
        /// Requested file.
        path: PathBuf,
        /// The linker's words.
        reason: String,
    },
    /// The file is a library, but not an ncclNet v7 plugin.
    #[error("plugin {path}: has no symbol ncclNetPlugin_v7, so it is not an ncclNet v7 plugin")]
    MissingSymbol {
        /// Requested file.
        path: PathBuf,
    },
    /// The symbol is there, but what it names is not a table: NCCL's v7 table is the symbol itself,
    /// not a pointer.
    #[error(
        "plugin {path}: ncclNetPlugin_v7 has {found} bytes, a v7 table has {expected}; \
         the file is damaged or exports something else under this name"
    )]
    WrongSize {
        /// Requested file.
        path: PathBuf,
        /// Bytes of the symbol.
        found: usize,
        /// Bytes of the table.
        expected: usize,
    },
    /// A member of the table that must be set is NULL.
    #[error(
        "plugin {path}: member `{member}` of ncclNetPlugin_v7 is NULL; \
         the file is damaged or of another version"
    )]
    NullMember {
        /// Requested file.
        path: PathBuf,
        /// The C name of the member.
        member: &'static str,
    },
    /// A plugin of the right version, but of another kind.
    #[error(
        "plugin {path}: is \"{found}\", expected one of {expected:?}; \
         another vendor's libnccl-net may shadow the right one"
    )]
    WrongName {
        /// Requested file.
        path: PathBuf,
        /// Its `name` member.
        found: String,
        /// Names that the caller accepts.
        expected: Vec<String>,
    },
}

/// Functions of the table, each known to be set. `regMrDmaBuf` is left out: it is NULL in the
/// original.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each member is documented at its type")]
pub struct Entries {
    pub init: InitFn,
    pub devices: DevicesFn,
    pub get_properties: GetPropertiesFn,
    pub listen: ListenFn,
    pub connect: ConnectFn,
    pub accept: AcceptFn,
    pub reg_mr: RegMrFn,
    pub dereg_mr: DeregMrFn,
    pub isend: IsendFn,
    pub irecv: IrecvFn,
    pub iflush: IflushFn,
    pub test: TestFn,
    pub close_send: CloseFn,
    pub close_recv: CloseFn,
    pub close_listen: CloseFn,
    pub get_device_mr: GetDeviceMrFn,
    pub irecv_consumed: IrecvConsumedFn,
}

/// Plugin whose table was checked. The library stays loaded for the life of the process: its helper
/// threads are detached and may run at any time.
#[derive(Clone, Debug)]
pub struct Plugin {
    path: PathBuf,
    name: String,
    table: NcclNetV7,
    entries: Entries,
    health: Option<HealthEntries>,
    readiness: Option<ReadinessEntries>,
    encryption: Option<EncryptionEntries>,
}

impl Plugin {
    /// Opens `path` and checks symbol, members and name. An empty list of names accepts any name.
    /// Finds the symbols [`HEALTH_SYMBOL`], [`READINESS_SYMBOL`] and [`ENCRYPTION_SYMBOL`] too,
    /// where they exist. A symbol of one of these names that is not the struct counts as absent.
    ///
    /// # Errors
    /// One [`LoadError`] variant per cause.
    ///
    /// # Safety
    /// Loading runs the library's constructors, and its table is trusted to hold functions of the
    /// v7 types: the caller vouches that the file at `path` is what it claims to be.
    pub unsafe fn load(path: &Path, expected_names: &[&str]) -> Result<Self, LoadError> {
        if !path.is_file() {
            return Err(LoadError::Missing { path: path.to_owned() });
        }
        // A bare file name would make dlopen search the library path and open another file than the
        // checked file.
        let file = std::path::absolute(path).map_err(|error| LoadError::Open {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        // SAFETY: the caller vouches for the library's constructors.
        let library = unsafe { libloading::Library::new(&file) }.map_err(|error| {
            LoadError::Open { path: path.to_owned(), reason: innermost(&error) }
        })?;
        // A plugin runs detached threads, so it must never be unmapped, not even when it turns out
        // to be the wrong plugin.
        let library = std::mem::ManuallyDrop::new(library);
        // SAFETY: only the symbol's address is taken here; nothing is read through it yet.
        let symbol = unsafe { library.get::<*const NcclNetV7>(SYMBOL) }
            .map_err(|_| LoadError::MissingSymbol { path: path.to_owned() })?;
        // The symbol *is* the table: the result of dlsym is already the pointer to the table.
        let address: *const NcclNetV7 = *symbol;
        if address.is_null() {
            return Err(LoadError::MissingSymbol { path: path.to_owned() });
        }
        let expected = size_of::<NcclNetV7>();
        // SAFETY: the address came from dlsym on a library that stays loaded.
        if let Some(found) = unsafe { symbol_bytes(address.cast()) }
            && found != expected
        {
            return Err(LoadError::WrongSize { path: path.to_owned(), found, expected });
        }
        // SAFETY:
        // - the address is not NULL and points into the data of a library that is never unmapped;
        // - the caller vouches that the object behind this symbol is a v7 table of 152 bytes;
        // - `NcclNetV7` is valid for every bit pattern of function addresses, NULL included.
        let table = unsafe { address.read_unaligned() };
        // SAFETY: the table came from a loaded plugin that the caller vouches for.
        let plugin = unsafe { Self::from_table(path, table, expected_names) }?;
        // SAFETY: the symbol of this name is this struct, whose members may be NULL.
        let health = unsafe { addition::<CommHealthV1>(&library, HEALTH_SYMBOL) };
        // SAFETY: as above.
        let readiness = unsafe { addition::<CommPollV1>(&library, READINESS_SYMBOL) };
        // SAFETY: as above.
        let encryption = unsafe { addition::<CommEncryptionV1>(&library, ENCRYPTION_SYMBOL) };
        Ok(Self {
            health: health.and_then(HealthEntries::from_struct),
            readiness: readiness.and_then(ReadinessEntries::from_struct),
            encryption: encryption.and_then(EncryptionEntries::from_struct),
            ..plugin
        })
    }

    /// Returns the same plugin with the additions that belong to a table of this process.
    ///
    /// # Safety
    /// The functions have the types that the structs declare, belong to the table's plugin, and
    /// stay callable for the rest of the process.
    #[must_use]
    pub unsafe fn with_additions(
        self,
        health: CommHealthV1,
        readiness: CommPollV1,
        encryption: CommEncryptionV1,
    ) -> Self {
        Self {
            health: HealthEntries::from_struct(health),
            readiness: ReadinessEntries::from_struct(readiness),
            encryption: EncryptionEntries::from_struct(encryption),
            ..self
        }
    }

    /// Takes a table that is already in this process, such as the built-in software plugin's. An
    /// empty list of names accepts any name.
    ///
    /// # Errors
    /// Returns [`LoadError::NullMember`] and [`LoadError::WrongName`], naming `label`.
    ///
    /// # Safety
    /// `table.name` is NULL or a NUL-terminated string that lives for the rest of the process; the
    /// functions are of the v7 types and stay callable for as long.
    pub unsafe fn from_table(
        label: &Path,
        table: NcclNetV7,
        expected_names: &[&str],
    ) -> Result<Self, LoadError> {
        let path = label.to_owned();
        macro_rules! required {
            ($($member:ident $c_name:literal),* $(,)?) => {
                Entries { $($member: match table.$member {
                    Some(function) => function,
                    None => return Err(LoadError::NullMember { path, member: $c_name }),
                }),* }
            };
        }
        if table.name.is_null() {
            return Err(LoadError::NullMember { path, member: "name" });
        }
        // SAFETY: not NULL, and the caller vouches for a NUL-terminated string of static life.
        let name = unsafe { bounded_name(table.name) };
        // The name is checked first: a plugin of another kind may rightly have other members.
        if !expected_names.is_empty() && !expected_names.contains(&name.as_str()) {
            let expected = expected_names.iter().map(ToString::to_string).collect();
            return Err(LoadError::WrongName { path, found: name, expected });
        }
        let entries = required!(
            init "init", devices "devices", get_properties "getProperties", listen "listen",
            connect "connect", accept "accept", reg_mr "regMr", dereg_mr "deregMr", isend "isend",
            irecv "irecv", iflush "iflush", test "test", close_send "closeSend",
            close_recv "closeRecv", close_listen "closeListen", get_device_mr "getDeviceMr",
            irecv_consumed "irecvConsumed",
        );
        Ok(Self { path, name, table, entries, health: None, readiness: None, encryption: None })
    }

    /// Returns the path of the plugin.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the `name` member.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the raw table, NULL members included.
    #[must_use]
    pub const fn table(&self) -> &NcclNetV7 {
        &self.table
    }

    /// Returns the table's functions.
    #[must_use]
    pub const fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Returns the functions that report whether comms are alive, if the plugin has them.
    #[must_use]
    pub const fn health(&self) -> Option<&HealthEntries> {
        self.health.as_ref()
    }

    /// Returns the functions that report what a caller waits for, if the plugin has them.
    #[must_use]
    pub const fn readiness(&self) -> Option<&ReadinessEntries> {
        self.readiness.as_ref()
    }

    /// Returns the functions that have comms encrypted, if the plugin has them.
    #[must_use]
    pub const fn encryption(&self) -> Option<&EncryptionEntries> {
        self.encryption.as_ref()
    }
}

/// Returns the struct of a symbol beside the table, if there is a symbol with the struct's size.
///
/// # Safety
/// The library stays loaded. The symbol of this name is data of this type, which is valid for every
/// bit pattern of function addresses, NULL included.
unsafe fn addition<T: Copy>(library: &libloading::Library, name: &str) -> Option<T> {
    // SAFETY: only the symbol's address is taken here.
    let symbol = unsafe { library.get::<*const T>(name) }.ok()?;
    let address = *symbol;
    if address.is_null() {
        return None;
    }
    // SAFETY: the address came from dlsym on a library that stays loaded.
    if unsafe { symbol_bytes(address.cast()) }.is_some_and(|found| found != size_of::<T>()) {
        return None;
    }
    // SAFETY: the address is that of data of this size in a library that is never unmapped; the
    // caller vouches for what the name stands for.
    Some(unsafe { address.read_unaligned() })
}

/// Returns the size of the object that starts at `address`, according to the dynamic symbol table,
/// or `None` where the table has no size.
///
/// # Safety
/// `address` is the value of a symbol of a library that stays loaded.
#[cfg(target_env = "gnu")]
unsafe fn symbol_bytes(address: *const c_void) -> Option<usize> {
    use core::ffi::c_int;
    /// `RTLD_DL_SYMENT`: the extra result is the symbol's entry.
    const SYMBOL_ENTRY: c_int = 1;
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            info: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: c_int,
        ) -> c_int;
    }
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let mut entry: *mut c_void = core::ptr::null_mut();
    // SAFETY: both results point to live variables of the declared types; dladdr1 takes any
    // address.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut entry, SYMBOL_ENTRY) };
    if found == 0 || entry.is_null() {
        return None;
    }
    // SAFETY: with this flag a found entry is the linker's own `ElfW(Sym)`, which lives as long as
    // the library.
    let bytes = unsafe { entry.cast::<libc::Elf64_Sym>().read() }.st_size;
    // Hand-written assembly may leave the size out.
    usize::try_from(bytes).ok().filter(|&bytes| bytes != 0)
}

/// Returns `None`: only glibc reports a symbol's size.
///
/// # Safety
/// No requirement; the signature is that of the glibc version.
#[cfg(not(target_env = "gnu"))]
unsafe fn symbol_bytes(_address: *const c_void) -> Option<usize> {
    None
}

/// # Safety
/// `name` points to a NUL-terminated string.
unsafe fn bounded_name(name: *const c_char) -> String {
    // SAFETY: the caller guarantees a terminated string.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    String::from_utf8_lossy(&text[..text.len().min(MAX_NAME_BYTES)]).into_owned()
}

/// Returns the linker's own message, which is at the end of the chain of sources.
fn innermost(error: &libloading::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}
