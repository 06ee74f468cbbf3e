//! Symbol, table and properties.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::check_result::{
    CheckResult, differs, fail, may_die, require, require_rc, skip,
};
use crate::harness::fixture::Fixture;
use crate::harness::plugin_under_test::ORIGINAL_NAME;
use crate::harness::symbols;
use crate::link::values::{LoadedTable, Properties};

checks! { Abi:
    "abi.symbol", "§1.1", symbol => "the file exports ncclNetPlugin_v7 as a table of 152 bytes";
    "abi.other_symbols", "§1.1", other_symbols =>
        "the file exports no table of another version and no CollNet table";
    "abi.members", "§1.2", members => "every member but regMrDmaBuf is set";
    "abi.dma_buf", "§1.2", dma_buf => "regMrDmaBuf is NULL";
    "abi.name", "§1.2", name => "the name is that of the original";
    "abi.memory_types", "§1.6", memory_types =>
        "host and CUDA memory are supported, dma-buf is not";
    "abi.limits", "§1.6", limits => "one receive per irecv, 65536 comms";
    "abi.net_device", "§1.3", net_device => "the device type is UNPACK, version 7";
    "abi.identity", "§1.6", identity => "every device has a name of its own and its number as guid";
    "abi.link", "§1.6", link => "speed is positive, port and latency are 0";
    "abi.properties_stable", "§1.6", stable => "getProperties answers the same every time";
    #[destructive]
    "abi.properties_range", "§1.6", range => "getProperties refuses a device beyond the last";
}

/// Returns the properties of every device.
fn all_properties(fixture: &Fixture<'_>) -> CheckResult<Vec<Properties>> {
    let process = fixture.ready_agent()?;
    let count = process.devices()?.count;
    let of = |dev| {
        let properties = process.properties(dev)?;
        require_rc(&format!("getProperties of device {dev}"), properties.rc, 0)?;
        Ok(properties)
    };
    (0..count).map(of).collect()
}

fn symbol(fixture: &Fixture<'_>) -> CheckResult {
    if fixture.plugin.file().is_none() {
        return Err(skip("a built-in table has no symbol"));
    }
    match fixture.load_table()? {
        Err(failure) if !failure.has_null_member => {
            Err(fail("a file with the symbol ncclNetPlugin_v7, 152 bytes long", failure.text))
        }
        _ => Ok(()),
    }
}

fn other_symbols(fixture: &Fixture<'_>) -> CheckResult {
    let Some(path) = fixture.plugin.file() else {
        return Err(skip("a built-in table has no symbol"));
    };
    let found = symbols::plugin_tables(path).map_err(|error| skip(error.to_string()))?;
    let others: Vec<_> = found.into_iter().filter(|name| name != tcpx_sys::SYMBOL).collect();
    if others.is_empty() {
        return Ok(());
    }
    // A program that prefers another version would use a table that was not checked.
    Err(differs(format!("it also exports {}; 3.1.9 does not", others.join(", "))))
}

/// Returns the plugin's table; skips the check where the file has none.
fn table(fixture: &Fixture<'_>) -> CheckResult<LoadedTable> {
    fixture.load_table()?.map_err(|failure| skip(failure.text))
}

fn members(fixture: &Fixture<'_>) -> CheckResult {
    match fixture.load_table()? {
        Ok(_) => Ok(()),
        Err(failure) if failure.has_null_member => Err(fail("a whole table", failure.text)),
        Err(failure) => Err(skip(failure.text)),
    }
}

fn dma_buf(fixture: &Fixture<'_>) -> CheckResult {
    if table(fixture)?.dma_buf {
        return Err(differs("regMrDmaBuf is set; it is NULL in 3.1.9"));
    }
    Ok(())
}

fn name(fixture: &Fixture<'_>) -> CheckResult {
    let name = table(fixture)?.name;
    require(!name.is_empty(), "a name", || "an empty one".to_owned())?;
    if name == ORIGINAL_NAME {
        return Ok(());
    }
    Err(differs(format!("the name is \"{name}\"; it is \"{ORIGINAL_NAME}\" in 3.1.9")))
}

fn memory_types(fixture: &Fixture<'_>) -> CheckResult {
    for properties in all_properties(fixture)? {
        require(properties.ptr_support == 3, "ptrSupport 3 (HOST | CUDA)", || {
            properties.ptr_support.to_string()
        })?;
    }
    Ok(())
}

fn limits(fixture: &Fixture<'_>) -> CheckResult {
    for properties in all_properties(fixture)? {
        require(properties.max_recvs == 1, "maxRecvs 1", || properties.max_recvs.to_string())?;
        require(properties.max_comms > 0, "a positive maxComms", || {
            properties.max_comms.to_string()
        })?;
        if properties.max_comms != 65536 {
            return Err(differs(format!(
                "maxComms is {}; it is 65536 in 3.1.9",
                properties.max_comms
            )));
        }
    }
    Ok(())
}

fn net_device(fixture: &Fixture<'_>) -> CheckResult {
    for properties in all_properties(fixture)? {
        let found = (properties.net_device_type, properties.net_device_version);
        require(found == (1, 7), "netDeviceType 1 and netDeviceVersion 7", || {
            format!("{found:?}")
        })?;
    }
    Ok(())
}

fn identity(fixture: &Fixture<'_>) -> CheckResult {
    let devices = all_properties(fixture)?;
    let mut names = Vec::new();
    for (dev, properties) in devices.iter().enumerate() {
        let Some(name) = properties.name.as_deref().filter(|name| !name.is_empty()) else {
            return Err(fail(format!("a name for device {dev}"), "none"));
        };
        require(!names.contains(&name), "different names", || format!("two devices named {name}"))?;
        names.push(name);
        if let Some(path) = &properties.pci_path {
            require(path.starts_with("/sys/"), "a pciPath below /sys, or NULL", || path.clone())?;
        }
        if properties.guid != dev as u64 {
            return Err(differs(format!(
                "the guid of device {dev} is {:#x}; it is {dev} in 3.1.9",
                properties.guid
            )));
        }
    }
    // The rank in the sorted list of names is the device number (§2.2).
    require(names.is_sorted(), "devices in the order of their names", || format!("{names:?}"))
}

fn link(fixture: &Fixture<'_>) -> CheckResult {
    for properties in all_properties(fixture)? {
        require(properties.speed > 0, "a positive speed in Mbit/s", || {
            properties.speed.to_string()
        })?;
        require(properties.port == 0, "port 0", || properties.port.to_string())?;
        require(properties.latency == 0.0, "latency 0.0", || properties.latency.to_string())?;
    }
    Ok(())
}

fn stable(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let (first, second) = (process.properties(0)?, process.properties(0)?);
    require(first == second, "the same properties twice", || format!("{first:?}, then {second:?}"))
}

fn range(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    for dev in [-1, process.devices()?.count] {
        let refused = process.properties(dev).map(|properties| properties.rc);
        may_die(&format!("getProperties of device {dev}"), refused)?;
    }
    Ok(())
}
