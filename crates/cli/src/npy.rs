//! One array as NumPy stores it, `.npy`.
//!
//! Magic, version, the length of a header, the header (a Python dictionary with `descr`, `fortran_order` and `shape`), and
//! the elements. What is read becomes a row-major tensor in this machine's byte order. Element types that NumPy lacks
//! are written as unsigned integers of the same width, and [`reinterpret`] gives them back.
use sconce::{ScalarType, Tensor};
use std::io::{self, Read, Write};

/// NumPy's names of the element types, without the byte order.
const TYPES: &[(&str, ScalarType)] = &[
    ("b1", ScalarType::Bool),
    ("i1", ScalarType::Char),
    ("i2", ScalarType::Short),
    ("i4", ScalarType::Int),
    ("i8", ScalarType::Long),
    ("u1", ScalarType::Byte),
    ("u2", ScalarType::UInt16),
    ("u4", ScalarType::UInt32),
    ("u8", ScalarType::UInt64),
    ("f2", ScalarType::Half),
    ("f4", ScalarType::Float),
    ("f8", ScalarType::Double),
    ("c8", ScalarType::ComplexFloat),
    ("c16", ScalarType::ComplexDouble),
];

const MAGIC: &[u8] = b"\x93NUMPY";

/// Most bytes of a header; NumPy's own are around a hundred.
const HEADER_LIMIT: u32 = 1 << 16;

/// What a header says.
struct Header {
    dtype: ScalarType,
    big_endian: bool,
    fortran: bool,
    sizes: Vec<usize>,
}

/// Reads an array.
pub(crate) fn read(reader: &mut dyn Read) -> Result<Tensor, String> {
    let text = header_text(reader).map_err(|error| format!("this is not a NumPy array: {error}"))?;
    let header = Header::parse(&text)?;
    let len = header.sizes.iter().try_fold(header.dtype.size(), |n, &size| n.checked_mul(size));
    let len = len.ok_or_else(|| format!("an array of sizes {:?} does not fit in memory", header.sizes))?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(len).unwrap_or(u64::MAX);
    reader.take(limit).read_to_end(&mut bytes).map_err(|error| format!("cannot read the array: {error}"))?;
    if bytes.len() != len {
        return Err(format!("the array should have {len} bytes, but only {} are there", bytes.len()));
    }
    if header.big_endian != cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(component_size(header.dtype)).for_each(<[u8]>::reverse);
    }
    header.tensor(&bytes).map_err(|error| error.to_string())
}

fn header_text(reader: &mut dyn Read) -> io::Result<String> {
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    if &start[..6] != MAGIC {
        return Err(io::Error::other("it does not begin with \\x93NUMPY"));
    }
    let mut word = [0; 4];
    reader.read_exact(if start[6] == 1 { &mut word[..2] } else { &mut word })?;
    let len = u32::from_le_bytes(word);
    if len > HEADER_LIMIT {
        return Err(io::Error::other(format!("its header has {len} bytes")));
    }
    let mut text = Vec::new();
    reader.take(u64::from(len)).read_to_end(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

impl Header {
    fn parse(text: &str) -> Result<Self, String> {
        let broken = |what: &str| format!("the array's header has no {what}: {}", text.trim());
        let descr = field(text, "descr").ok_or_else(|| broken("element type"))?;
        let Some(name) = descr.strip_prefix('\'').and_then(|rest| rest.split('\'').next()) else {
            return Err("structured arrays cannot be read; store one array per tensor".to_owned());
        };
        let known = TYPES.iter().find(|(known, _)| name.strip_prefix(['<', '>', '=', '|']) == Some(*known));
        let (_, dtype) = known.ok_or_else(|| format!("arrays of type {name} cannot be read; convert with `astype`"))?;
        let fortran = field(text, "fortran_order").ok_or_else(|| broken("fortran_order"))?.starts_with("True");
        let shape = field(text, "shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
        let sizes = shape.ok_or_else(|| broken("shape"))?.split(',').map(str::trim).filter(|size| !size.is_empty());
        let sizes = sizes.map(|size| size.trim_end_matches('L').parse()).collect::<Result<_, _>>();
        let sizes = sizes.map_err(|_| broken("readable shape"))?;
        Ok(Self { dtype: *dtype, big_endian: name.starts_with('>'), fortran, sizes })
    }

    fn tensor(&self, bytes: &[u8]) -> Result<Tensor, sconce::Error> {
        if !self.fortran {
            return Tensor::from_bytes(self.dtype, &self.sizes, bytes);
        }
        let order: Vec<u8> = (0..=u8::MAX).take(self.sizes.len()).collect();
        let order: Vec<u8> = order.into_iter().rev().collect();
        Ok(Tensor::with_dim_order(self.dtype, &self.sizes, &order, bytes)?.to_contiguous())
    }
}

/// What follows a key of the header.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("'{key}':"))?;
    Some(rest.trim_start())
}

/// Bytes that a change of byte order reverses together.
fn component_size(dtype: ScalarType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}

/// Writes a tensor's logical values, row-major.
pub(crate) fn write(writer: &mut dyn Write, tensor: &Tensor) -> io::Result<()> {
    let stored = stored_as(tensor.dtype());
    let name = TYPES.iter().find(|(_, dtype)| *dtype == stored).map_or("u1", |(name, _)| name);
    let order = match stored.size() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    let sizes: String = tensor.sizes().iter().map(|size| format!("{size}, ")).collect();
    let mut text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let len = u16::try_from(text.len()).map_err(io::Error::other)?;
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&len.to_le_bytes())?;
    writer.write_all(text.as_bytes())?;
    writer.write_all(tensor.to_contiguous().bytes())
}

/// The type under which NumPy stores elements of this type.
fn stored_as(dtype: ScalarType) -> ScalarType {
    if TYPES.iter().any(|(_, known)| *known == dtype) {
        return dtype;
    }
    match dtype.size() {
        2 => ScalarType::UInt16,
        4 => ScalarType::UInt32,
        8 => ScalarType::UInt64,
        _ => ScalarType::Byte,
    }
}

/// The bits of an array as the type that the program says, where NumPy has no such type.
pub(crate) fn reinterpret(tensor: Tensor, dtype: ScalarType) -> Tensor {
    if tensor.dtype() == dtype || stored_as(dtype) != tensor.dtype() {
        return tensor;
    }
    Tensor::from_bytes(dtype, tensor.sizes(), tensor.bytes()).unwrap_or(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let len = u16::try_from(header.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &len, header.as_bytes(), data].concat()
    }

    fn round_trip(tensor: &Tensor) -> Tensor {
        let mut bytes = Vec::new();
        write(&mut bytes, tensor).unwrap();
        assert_eq!((bytes.len() - tensor.bytes().len()) % 64, 0);
        read(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn every_type_comes_back() {
        for dtype in ScalarType::all() {
            let bytes: Vec<u8> = (0..).take(6 * dtype.size()).map(|i| i % 2).collect();
            let tensor = Tensor::from_bytes(dtype, &[2, 3], &bytes).unwrap();
            let back = reinterpret(round_trip(&tensor), dtype);
            assert_eq!((back.dtype(), back.sizes(), back.bytes()), (dtype, &[2, 3][..], bytes.as_slice()));
        }
    }

    #[test]
    fn zero_dim_and_empty_arrays() {
        let zero_dim = round_trip(&Tensor::from_slice(&[7i64], &[]).unwrap());
        assert_eq!((zero_dim.sizes(), zero_dim.as_slice::<i64>().unwrap()), (&[][..], &[7][..]));
        let empty = round_trip(&Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap());
        assert_eq!((empty.sizes(), empty.numel()), (&[0, 3][..], 0));
    }

    #[test]
    fn what_numpy_writes() {
        // numpy.float16(1.5) is 0x3e00.
        let half = file("{'descr': '<f2', 'fortran_order': False, 'shape': (), }\n", &[0x00, 0x3e]);
        let half = read(&mut half.as_slice()).unwrap();
        assert_eq!(half.as_slice::<sconce::f16>().unwrap(), [sconce::f16::from_f32(1.5)]);
        let big = file("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n", &[0, 0, 1, 0, 0, 0, 0, 2]);
        assert_eq!(read(&mut big.as_slice()).unwrap().as_slice::<i32>().unwrap(), [256, 2]);
        // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) lies in memory column by column.
        let columns = file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", &[1, 4, 2, 5, 3, 6]);
        assert_eq!(read(&mut columns.as_slice()).unwrap().as_slice::<u8>().unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn broken_arrays_get_a_sentence() {
        let error = |bytes: Vec<u8>| read(&mut bytes.as_slice()).unwrap_err();
        assert!(error(b"PNG".to_vec()).contains("not a NumPy array"));
        assert!(error(file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", &[0; 8])).contains("12 bytes"));
        assert!(error(file("{'descr': '<U5', 'fortran_order': False, 'shape': (), }", &[])).contains("<U5"));
        assert!(
            error(file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", &[]))
                .contains("one array")
        );
        assert!(error(file("{'descr': '<f4'}", &[])).contains("fortran_order"));
        let huge = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, 9), }}", usize::MAX);
        assert!(error(file(&huge, &[])).contains("memory"));
    }
}
