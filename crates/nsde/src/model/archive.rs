//! The container of a model file: a safetensors archive, checked before anything it claims is believed.

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::{BTreeSet, HashMap};

/// Bytes of the header's length, at the beginning of the file.
pub(super) const LENGTH: usize = 8;

/// Bytes to look at before the header is read: its length and the brace it begins with.
pub(super) const PREFIX: usize = LENGTH + 1;

/// Longest text from a file that a message repeats.
const LONGEST_QUOTE: usize = 80;

/// The header of an archive of which only the size is known beyond it.
pub(super) struct Header {
    metadata: Metadata,
}

impl Header {
    /// Where the header ends, from the first [`PREFIX`] bytes of a file of `total` bytes.
    pub fn end(first: &[u8], total: u64) -> Result<usize, String> {
        if first.is_empty() {
            return Err("the file is empty; export the model again".into());
        }
        let not_ours = || {
            if first.starts_with(b"PK\x03\x04") || first.starts_with(b"\x80\x02") {
                return Err(
                    "looks like a PyTorch pickle, not a safetensors file; convert it in Python with \
                            safetensors.torch.save_file(state_dict, path, metadata={\"nsde\": description})"
                        .into(),
                );
            }
            let bytes: Vec<String> = first.iter().take(4).map(|b| format!("{b:02x}")).collect();
            Err(format!("not a safetensors file (it begins with the bytes {})", bytes.join(" ")))
        };
        let Some(length) = first.first_chunk::<LENGTH>() else { return not_ours() };
        if first.get(LENGTH).is_some_and(|brace| *brace != b'{') {
            return not_ours();
        }
        let length = u64::from_le_bytes(*length);
        let room = total.saturating_sub(LENGTH as u64);
        match usize::try_from(length) {
            Ok(length) if length as u64 <= room => Ok(LENGTH + length),
            _ => Err(format!(
                "truncated or not a safetensors file: its header claims {length} bytes, the file has {room} after its \
                 length; copy or export it again"
            )),
        }
    }

    /// Takes the header itself, without its length, of a file of `total` bytes.
    pub fn parse(header: &[u8], total: u64) -> Result<Header, String> {
        let metadata: Metadata = serde_json::from_slice(header)
            .map_err(|e| format!("its safetensors header is damaged: {}", clean(&e.to_string())))?;
        let claimed = metadata.data_len() as u64;
        let room = total.saturating_sub((LENGTH + header.len()) as u64);
        if claimed > room {
            return Err(format!(
                "truncated: its tensors take {claimed} bytes, {room} are there; copy or export it again"
            ));
        }
        if claimed < room {
            return Err(format!(
                "damaged: {} bytes follow its last tensor; copy or export it again",
                room - claimed
            ));
        }
        Ok(Header { metadata })
    }

    /// The JSON that describes the model.
    pub fn description(&self) -> Result<&str, String> {
        let description = self.metadata.metadata().as_ref().and_then(|m: &HashMap<_, _>| m.get("nsde"));
        description.map(String::as_str).ok_or_else(|| {
            "a safetensors file, but not a model of nsde: its metadata has no key `nsde`; save it with \
             metadata={\"nsde\": description}"
                .into()
        })
    }
}

/// The tensors of an archive, and which of them were used.
pub(super) struct Tensors<'a> {
    header: &'a Header,
    data: &'a [u8],
    used: BTreeSet<String>,
}

impl<'a> Tensors<'a> {
    pub fn new(header: &'a Header, data: &'a [u8]) -> Result<Self, String> {
        if data.len() != header.metadata.data_len() {
            return Err("truncated: the file became shorter while it was read".into());
        }
        Ok(Tensors { header, data, used: BTreeSet::new() })
    }

    /// The dimensions of a tensor, if there is one of that name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.header.metadata.info(name).map(|info| &info.shape[..])
    }

    /// The values of a tensor, which must have this shape.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>, String> {
        let Some(info) = self.header.metadata.info(name) else {
            return Err(format!("tensor {} of shape {shape:?} is missing", quote(name)));
        };
        if info.shape != shape {
            return Err(format!("tensor {} has shape {:?}, expected {shape:?}", quote(name), info.shape));
        }
        self.used.insert(name.to_owned());
        self.values(name, info)
    }

    /// Names of the tensors that nobody took, sorted.
    pub fn unused(&self) -> BTreeSet<String> {
        self.header.metadata.offset_keys().into_iter().filter(|name| !self.used.contains(name)).collect()
    }

    fn values(&self, name: &str, info: &TensorInfo) -> Result<Vec<f64>, String> {
        let (from, to) = info.data_offsets;
        let bytes =
            self.data.get(from..to).ok_or_else(|| format!("tensor {} lies outside the file", quote(name)))?;
        let values: Vec<f64> = match info.dtype {
            Dtype::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
            other => {
                return Err(format!(
                    "tensor {} has type {other}; F64 and F32 are read, convert it",
                    quote(name)
                ));
            }
        };
        match values.iter().position(|x| !x.is_finite()) {
            Some(at) => Err(format!(
                "tensor {} holds {} at place {at}; its training diverged",
                quote(name),
                values[at]
            )),
            None => Ok(values),
        }
    }
}

/// Text from a file between backticks, on one line and not too long.
pub(super) fn quote(text: &str) -> String {
    format!("`{}`", clean(text))
}

fn clean(text: &str) -> String {
    let mut line: String = text.chars().take(LONGEST_QUOTE).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        line.push('…');
    }
    line
}
