//! The part of the ZIP format that NumPy's `.npz` files use: stored and deflated members, also ZIP64.

use super::cell::one_line;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::io::Read;

/// Bytes of the end-of-directory record, and the longest comment that may follow it.
const END: usize = 22;
const LONGEST_COMMENT: usize = 65_535;

/// Memory taken before the first byte of a member is unpacked: a file may claim any size.
const FIRST_ROOM: u64 = 1 << 26;

/// One member of an archive, as its directory describes it.
#[derive(Debug)]
pub(super) struct Member {
    pub name: String,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
}

/// Lists the members of the archive `bytes`.
pub(super) fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
    directory(bytes).ok_or_else(|| "the ZIP archive is damaged or cut off".into())
}

/// The content of one member.
pub(super) fn unpack<'a>(bytes: &'a [u8], member: &Member) -> Result<Cow<'a, [u8]>, String> {
    let name = &member.name;
    let damaged = || format!("array `{name}`: the ZIP archive is damaged or cut off");
    let packed = packed(bytes, member).ok_or_else(damaged)?;
    let content = match member.method {
        0 => Cow::Borrowed(packed),
        8 => {
            let mut content = Vec::with_capacity(member.size.min(FIRST_ROOM) as usize);
            let mut decoder = DeflateDecoder::new(packed).take(member.size.saturating_add(1));
            decoder.read_to_end(&mut content).map_err(|_| damaged())?;
            Cow::Owned(content)
        }
        other => return Err(format!("array `{name}`: ZIP method {other} is not supported; use numpy.savez")),
    };
    let mut crc = Crc::new();
    crc.update(&content);
    if content.len() as u64 != member.size || crc.sum() != member.crc {
        return Err(damaged());
    }
    Ok(content)
}

fn packed<'a>(bytes: &'a [u8], member: &Member) -> Option<&'a [u8]> {
    let header = bytes.get(usize::try_from(member.offset).ok()?..)?;
    let names = usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?);
    let content = header.strip_prefix(b"PK\x03\x04")?.get(26 + names..)?;
    content.get(..usize::try_from(member.packed).ok()?)
}

fn directory(bytes: &[u8]) -> Option<Vec<Member>> {
    let earliest = bytes.len().saturating_sub(END + LONGEST_COMMENT);
    let end = (earliest..=bytes.len().checked_sub(END)?)
        .rev()
        .find(|at| bytes[*at..].starts_with(b"PK\x05\x06"))?;
    let (mut count, mut at) = (u64::from(u16_at(bytes, end + 10)?), u64::from(u32_at(bytes, end + 16)?));
    if count == 0xffff || at == 0xffff_ffff {
        let locator = bytes.get(end.checked_sub(20)?..end)?.strip_prefix(b"PK\x06\x07")?;
        let end = usize::try_from(u64_at(locator, 4)?).ok()?;
        let record = bytes.get(end..)?.strip_prefix(b"PK\x06\x06")?;
        (count, at) = (u64_at(record, 28)?, u64_at(record, 44)?);
    }
    let mut rest = bytes.get(usize::try_from(at).ok()?..)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let (member, length) = member(rest)?;
        members.push(member);
        rest = rest.get(length..)?;
    }
    Some(members)
}

/// Reads one entry of the directory; also gives its length.
fn member(entry: &[u8]) -> Option<(Member, usize)> {
    entry.strip_prefix(b"PK\x01\x02")?;
    let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(entry, at).map(usize::from));
    let (name_end, extra, comment) = (46 + name?, extra?, comment?);
    let mut member = Member {
        name: one_line(&String::from_utf8_lossy(entry.get(46..name_end)?)),
        method: u16_at(entry, 10)?,
        crc: u32_at(entry, 16)?,
        packed: u32_at(entry, 20)?.into(),
        size: u32_at(entry, 24)?.into(),
        offset: u32_at(entry, 42)?.into(),
    };
    widen(&mut member, entry.get(name_end..name_end + extra)?);
    Some((member, name_end + extra + comment))
}

/// Replaces sizes that do not fit 32 bits by those in the ZIP64 field, if there is one.
fn widen(member: &mut Member, mut extra: &[u8]) {
    while let (Some(id), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some(field) = extra.get(4..4 + usize::from(length)) else { return };
        if id == 1 {
            let mut at = 0;
            for small in [&mut member.size, &mut member.packed, &mut member.offset] {
                if *small == 0xffff_ffff {
                    let Some(wide) = u64_at(field, at) else { return };
                    *small = wide;
                    at += 8;
                }
            }
            return;
        }
        extra = &extra[4 + usize::from(length)..];
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by NumPy 2.4.6: `savez_compressed(…, x=…, t=…, u=…)`.
    const COMPRESSED: &[u8] = include_bytes!("fixtures/compressed.npz");

    #[test]
    fn members_unpack_with_their_checksum() {
        let members = members(COMPRESSED).unwrap();
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["x.npy", "t.npy", "u.npy"]);
        for member in &members {
            assert!(unpack(COMPRESSED, member).unwrap().starts_with(b"\x93NUMPY"));
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        for length in 0..COMPRESSED.len() {
            assert!(members(&COMPRESSED[..length]).is_err(), "cut at {length}");
        }
        let intact: Vec<_> = members(COMPRESSED)
            .unwrap()
            .iter()
            .map(|member| unpack(COMPRESSED, member).unwrap().into_owned())
            .collect();
        for n in 0..COMPRESSED.len() {
            let mut bytes = COMPRESSED.to_vec();
            bytes[n] ^= 0x55;
            for (member, intact) in members(&bytes).unwrap_or_default().iter().zip(&intact) {
                if let Ok(content) = unpack(&bytes, member) {
                    assert_eq!(&content[..], &intact[..], "byte {n}");
                }
            }
        }
    }
}
