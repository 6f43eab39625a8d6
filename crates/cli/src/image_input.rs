//! Images as inputs: decoded, resized to what the model takes, and normalised as `(x - mean) / std` with x in 0..1.
use crate::failure::Failure;
use image::imageops::{self, FilterType};
use image::{DynamicImage, ImageBuffer, Pixel};
use sconce::core::ValueInfo;
use sconce::{ScalarType, Tensor};
use std::path::Path;

/// How an image becomes a tensor.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ImageOptions {
    /// Subtracted from the channels of an image, which are in 0..1
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_negative_numbers = true)]
    mean: Vec<f32>,
    /// Divides the channels of an image after the mean is subtracted
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_negative_numbers = true)]
    std: Vec<f32>,
    /// Resizes images to this size instead of the model's
    #[arg(long, value_name = "WxH", value_parser = size)]
    resize: Option<(u32, u32)>,
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let (width, height) = text.split_once('x').ok_or("write it as WIDTHxHEIGHT, such as 224x224")?;
    match (width.parse(), height.parse()) {
        (Ok(width), Ok(height)) if width > 0 && height > 0 => Ok((width, height)),
        _ => Err("width and height are positive whole numbers, such as 224x224".to_owned()),
    }
}

/// Reads an image for an input of `[1, C, H, W]` or `[C, H, W]`.
pub(crate) fn read(path: &Path, takes: &ValueInfo<'_>, options: &ImageOptions) -> Result<Tensor, Failure> {
    let opened = image::ImageReader::open(path).and_then(|reader| reader.with_guessed_format());
    let reader = opened.map_err(|error| crate::model::unreadable(path, &error))?;
    let picture = reader.decode().map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    tensor(&picture, takes, options).map_err(|text| Failure::new(format!("{}: {text}", path.display())))
}

/// An image as a tensor.
pub(crate) fn tensor(picture: &DynamicImage, takes: &ValueInfo<'_>, options: &ImageOptions) -> Result<Tensor, String> {
    let refused = || format!("an image goes to a float32 input [1, C, H, W], this one is {}", sconce::describe(takes));
    let ValueInfo::Tensor { dtype: ScalarType::Float, shape, .. } = takes else { return Err(refused()) };
    let (&[channels, height, width] | &[1, channels, height, width]) = shape.sizes() else { return Err(refused()) };
    let bound = |size: usize| u32::try_from(size).map_err(|_| refused());
    let size = options.resize.map_or_else(|| Ok::<_, String>((bound(width)?, bound(height)?)), Ok)?;
    let planes = match channels {
        1 => planes(picture.to_luma32f(), size),
        3 => planes(picture.to_rgb32f(), size),
        4 => planes(picture.to_rgba32f(), size),
        _ => return Err(format!("an image has 1, 3 or 4 channels, the input has {channels}")),
    };
    let mut sizes = shape.sizes().to_vec();
    let rank = sizes.len();
    (sizes[rank - 2], sizes[rank - 1]) = (size.1 as usize, size.0 as usize);
    let values = normalise(planes, channels, options)?;
    Tensor::from_slice(&values, &sizes).map_err(|error| error.to_string())
}

/// The channels of an image one after the other.
fn planes<P: Pixel<Subpixel = f32> + 'static>(image: ImageBuffer<P, Vec<f32>>, size: (u32, u32)) -> Vec<f32> {
    let image = match image.dimensions() == size {
        true => image,
        false => imageops::resize(&image, size.0, size.1, FilterType::Triangle),
    };
    let channels = usize::from(P::CHANNEL_COUNT);
    (0..channels).flat_map(|channel| image.as_raw().iter().skip(channel).step_by(channels).copied()).collect()
}

fn normalise(mut values: Vec<f32>, channels: usize, options: &ImageOptions) -> Result<Vec<f32>, String> {
    let of = |list: &[f32], default: f32, name: &str| match list {
        [] => Ok(vec![default; channels]),
        [one] => Ok(vec![*one; channels]),
        list if list.len() == channels => Ok(list.to_vec()),
        list => Err(format!("--{name} has {} values, the input has {channels} channel(s)", list.len())),
    };
    let (mean, std) = (of(&options.mean, 0.0, "mean")?, of(&options.std, 1.0, "std")?);
    if std.contains(&0.0) {
        return Err("--std must not be zero".to_owned());
    }
    let plane = (values.len() / channels).max(1);
    for (values, (mean, std)) in values.chunks_mut(plane).zip(mean.into_iter().zip(std)) {
        values.iter_mut().for_each(|value| *value = (*value - mean) / std);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GrayImage, RgbImage};
    use sconce::core::Shape;

    fn takes(sizes: &[usize]) -> ValueInfo<'static> {
        ValueInfo::Tensor {
            dtype: ScalarType::Float,
            shape: Shape::contiguous(sizes).unwrap(),
            dynamic: false,
            unbound: false,
        }
    }

    #[test]
    fn channels_become_planes() {
        let picture = RgbImage::from_raw(2, 1, vec![255, 0, 51, 0, 255, 102]).unwrap();
        let tensor = tensor(&picture.into(), &takes(&[1, 3, 1, 2]), &ImageOptions::default()).unwrap();
        assert_eq!(tensor.sizes(), [1, 3, 1, 2]);
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0, 0.2, 0.4]);
    }

    #[test]
    fn mean_and_std_are_per_channel_or_one_for_all() {
        let picture = DynamicImage::from(RgbImage::from_raw(1, 1, vec![255, 0, 255]).unwrap());
        let of = |mean: &[f32], std: &[f32]| {
            let options = ImageOptions { mean: mean.to_vec(), std: std.to_vec(), resize: None };
            tensor(&picture, &takes(&[3, 1, 1]), &options).map(|tensor| tensor.as_slice::<f32>().unwrap().to_vec())
        };
        assert_eq!(of(&[0.5, 0.25, 0.0], &[0.5]).unwrap(), [1.0, -0.5, 2.0]);
        assert!(of(&[0.5, 0.5], &[]).unwrap_err().contains("2 values"));
        assert!(of(&[], &[0.0]).unwrap_err().contains("zero"));
    }

    #[test]
    fn grey_and_resized() {
        let picture = DynamicImage::from(GrayImage::from_pixel(5, 7, image::Luma([255])));
        let grey = tensor(&picture, &takes(&[1, 1, 2, 3]), &ImageOptions::default()).unwrap();
        assert_eq!(grey.sizes(), [1, 1, 2, 3]);
        assert!(grey.as_slice::<f32>().unwrap().iter().all(|value| (value - 1.0).abs() < 1e-6));
        let options = ImageOptions { resize: Some((4, 2)), ..ImageOptions::default() };
        assert_eq!(tensor(&picture, &takes(&[1, 1, 8, 8]), &options).unwrap().sizes(), [1, 1, 2, 4]);
    }

    #[test]
    fn inputs_that_take_no_image() {
        let picture = DynamicImage::new_luma8(2, 2);
        for (takes, word) in [(takes(&[4]), "float32"), (takes(&[1, 2, 8, 8]), "2"), (ValueInfo::Int(3), "integer")] {
            let error = tensor(&picture, &takes, &ImageOptions::default()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(size("4x3"), Ok((4, 3)));
        assert!(size("4").is_err() && size("0x3").is_err() && size("axb").is_err());
    }
}
