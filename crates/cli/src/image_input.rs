//! Images as inputs: decoded, brought to the size that the model takes, and normalised as `(x - mean) / std` with x in 0..1.
//!
//! Models see well only what was prepared as in their training, so what was done is told in words.
use crate::failure::Failure;
use image::imageops::{self, FilterType};
use image::{DynamicImage, ImageBuffer, Pixel};
use sconce::core::ValueInfo;
use sconce::{ScalarType, Tensor};
use std::path::Path;

/// How an image becomes a tensor.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ImageOptions {
    /// Prepares images as models of a kind were trained: mean, deviation and the part of the image that they see
    #[arg(long, value_name = "KIND")]
    preset: Option<Preset>,
    /// Subtracted from the channels of an image, which are in 0..1
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_negative_numbers = true)]
    mean: Vec<f32>,
    /// Divides the channels of an image after the mean is subtracted
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_negative_numbers = true)]
    std: Vec<f32>,
    /// Resizes images to this size instead of the model's
    #[arg(long, value_name = "WxH", value_parser = size)]
    resize: Option<(u32, u32)>,
    /// Keeps the proportions of images and cuts off what does not fit, instead of squeezing them
    #[arg(long)]
    crop: bool,
}

/// How models of a kind were trained.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Preset {
    /// Classifiers of photos: the shorter side to 256, the middle 224, and the mean and deviation of ImageNet
    Imagenet,
}

impl Preset {
    fn mean(self) -> &'static [f32] {
        match self {
            Self::Imagenet => &[0.485, 0.456, 0.406],
        }
    }

    fn std(self) -> &'static [f32] {
        match self {
            Self::Imagenet => &[0.229, 0.224, 0.225],
        }
    }

    /// How much larger the image is than what is cut out of its middle.
    fn margin(self) -> (u64, u64) {
        match self {
            Self::Imagenet => (256, 224),
        }
    }
}

/// A tensor made of an image, and how, in words.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The tensor.
    pub(crate) tensor: Tensor,
    /// What was done.
    pub(crate) done: String,
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let (width, height) = text.split_once('x').ok_or("write it as WIDTHxHEIGHT, such as 224x224")?;
    match (width.parse(), height.parse()) {
        (Ok(width), Ok(height)) if fits(width, height) => Ok((width, height)),
        _ => Err("width and height are whole numbers of at most 64 million pixels, such as 224x224".to_owned()),
    }
}

/// Most pixels that an image is resized to.
const MOST_PIXELS: u64 = 64 << 20;

/// Whether an image may have this size.
fn fits(width: u32, height: u32) -> bool {
    (1..=MOST_PIXELS).contains(&(u64::from(width) * u64::from(height)))
}

/// Reads an image for an input of `[1, C, H, W]` or `[C, H, W]`.
pub(crate) fn read(path: &Path, takes: &ValueInfo<'_>, options: &ImageOptions) -> Result<Prepared, Failure> {
    let opened = image::ImageReader::open(path).and_then(|reader| reader.with_guessed_format());
    let reader = opened.map_err(|error| crate::model::unreadable(path, &error))?;
    let picture = reader.decode().map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    prepare(&picture, takes, options).map_err(|text| Failure::new(format!("{}: {text}", path.display())))
}

/// An image as a tensor.
pub(crate) fn prepare(
    picture: &DynamicImage,
    takes: &ValueInfo<'_>,
    options: &ImageOptions,
) -> Result<Prepared, String> {
    let refused = || format!("an image goes to a float32 input [1, C, H, W], this one is {}", sconce::describe(takes));
    let ValueInfo::Tensor { dtype: ScalarType::Float, shape, .. } = takes else { return Err(refused()) };
    let (&[channels, height, width] | &[1, channels, height, width]) = shape.sizes() else { return Err(refused()) };
    let bound = |size: usize| u32::try_from(size).map_err(|_| refused());
    let size = options.resize.map_or_else(|| Ok::<_, String>((bound(width)?, bound(height)?)), Ok)?;
    if !fits(size.0, size.1) {
        return Err(refused());
    }
    let (planes, colours) = match channels {
        1 => (options.planes(picture.to_luma32f(), size), "grey"),
        3 => (options.planes(picture.to_rgb32f(), size), "RGB"),
        4 => (options.planes(picture.to_rgba32f(), size), "RGBA"),
        _ => return Err(format!("an image has 1, 3 or 4 channels, the input has {channels}")),
    };
    let mut sizes = shape.sizes().to_vec();
    let rank = sizes.len();
    (sizes[rank - 2], sizes[rank - 1]) = (size.1 as usize, size.0 as usize);
    let ((planes, geometry), (mean, std)) = (planes?, options.scaling(channels)?);
    let values = normalise(planes, &mean, &std);
    let tensor = Tensor::from_slice(&values, &sizes).map_err(|error| error.to_string())?;
    Ok(Prepared { tensor, done: format!("{geometry}, {colours} in 0..1, {}", scaling_in_words(&mean, &std)) })
}

impl ImageOptions {
    /// The channels of an image one after the other, in a size, and how it came to that.
    fn planes<P: Pixel<Subpixel = f32> + 'static>(
        &self,
        image: ImageBuffer<P, Vec<f32>>,
        size: (u32, u32),
    ) -> Result<(Vec<f32>, String), String> {
        let (given, (width, height)) = (image.dimensions(), size);
        if given.0 == 0 || given.1 == 0 {
            return Err("the image has no pixels".to_owned());
        }
        let from = format!("{}x{}", given.0, given.1);
        let resize = |image: &_, (width, height)| imageops::resize(image, width, height, FilterType::Triangle);
        let (image, done) = if let Some(whole) = self.whole(given, size)? {
            let resized = resize(&image, whole);
            let (left, top) = ((whole.0 - width) / 2, (whole.1 - height) / 2);
            let middle = imageops::crop_imm(&resized, left, top, width, height).to_image();
            (middle, format!("{from} resized to {}x{}, the middle {width}x{height}", whole.0, whole.1))
        } else if given == size {
            (image, from)
        } else {
            (resize(&image, size), format!("{from} resized to {width}x{height}"))
        };
        let channels = usize::from(P::CHANNEL_COUNT);
        let plane = |channel| image.as_raw().iter().skip(channel).step_by(channels).copied();
        Ok(((0..channels).flat_map(plane).collect(), done))
    }

    /// The size of an image in proportion of which the middle is cut out, if it is to be cut.
    fn whole(&self, given: (u32, u32), size: (u32, u32)) -> Result<Option<(u32, u32)>, String> {
        let (more, less) = match self.preset {
            Some(preset) => preset.margin(),
            None if self.crop => (1, 1),
            None => return Ok(None),
        };
        let enlarged = |side: u32| (u64::from(side) * more + less / 2) / less;
        let (width, height) = (u64::from(given.0), u64::from(given.1));
        let (wide, high) = (enlarged(size.0), enlarged(size.1));
        // The side that is shorter in proportion has the size that it is to have, the other one is longer.
        let whole = if width * high <= height * wide {
            (wide, (height * wide / width).max(high))
        } else {
            ((width * high / height).max(wide), high)
        };
        match (u32::try_from(whole.0), u32::try_from(whole.1)) {
            (Ok(wide), Ok(high)) if fits(wide, high) => Ok(Some((wide, high))),
            _ => Err(format!("an image of {}x{} is too long to cut {}x{} out of it", given.0, given.1, size.0, size.1)),
        }
    }

    /// Mean and deviation of each channel.
    fn scaling(&self, channels: usize) -> Result<(Vec<f32>, Vec<f32>), String> {
        let of = |given: &[f32], usual: Option<&[f32]>, default: f32, name: &str| match if given.is_empty() {
            usual.unwrap_or_default()
        } else {
            given
        } {
            [] => Ok(vec![default; channels]),
            [one] => Ok(vec![*one; channels]),
            list if list.len() == channels => Ok(list.to_vec()),
            list => Err(format!("--{name} has {} values, the input has {channels} channel(s)", list.len())),
        };
        let mean = of(&self.mean, self.preset.map(Preset::mean), 0.0, "mean")?;
        let std = of(&self.std, self.preset.map(Preset::std), 1.0, "std")?;
        match mean.iter().chain(&std).all(|value| value.is_finite()) {
            _ if std.contains(&0.0) => Err("--std must not be zero".to_owned()),
            true => Ok((mean, std)),
            false => Err("--mean and --std are numbers".to_owned()),
        }
    }
}

fn normalise(mut values: Vec<f32>, mean: &[f32], std: &[f32]) -> Vec<f32> {
    let plane = (values.len() / mean.len().max(1)).max(1);
    for (values, (mean, std)) in values.chunks_mut(plane).zip(mean.iter().zip(std)) {
        values.iter_mut().for_each(|value| *value = (*value - mean) / std);
    }
    values
}

fn scaling_in_words(mean: &[f32], std: &[f32]) -> String {
    if mean.iter().all(|mean| *mean == 0.0) && std.iter().all(|std| *std == 1.0) {
        return "not normalised (see --preset, --mean and --std)".to_owned();
    }
    let list = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>().join(", ");
    format!("less the mean {} and divided by {}", list(mean), list(std))
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

    fn values(picture: &DynamicImage, sizes: &[usize], options: &ImageOptions) -> Vec<f32> {
        prepare(picture, &takes(sizes), options).unwrap().tensor.as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn channels_become_planes() {
        let picture = RgbImage::from_raw(2, 1, vec![255, 0, 51, 0, 255, 102]).unwrap();
        let prepared = prepare(&picture.into(), &takes(&[1, 3, 1, 2]), &ImageOptions::default()).unwrap();
        assert_eq!(prepared.tensor.sizes(), [1, 3, 1, 2]);
        assert_eq!(prepared.tensor.as_slice::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0, 0.2, 0.4]);
        assert!(prepared.done.starts_with("2x1, RGB in 0..1, not normalised"), "{}", prepared.done);
    }

    #[test]
    fn mean_and_std_are_per_channel_or_one_for_all() {
        let picture = DynamicImage::from(RgbImage::from_raw(1, 1, vec![255, 0, 255]).unwrap());
        let of = |mean: &[f32], std: &[f32]| {
            let options = ImageOptions { mean: mean.to_vec(), std: std.to_vec(), ..ImageOptions::default() };
            prepare(&picture, &takes(&[3, 1, 1]), &options).map(|own| own.tensor.as_slice::<f32>().unwrap().to_vec())
        };
        assert_eq!(of(&[0.5, 0.25, 0.0], &[0.5]).unwrap(), [1.0, -0.5, 2.0]);
        assert!(of(&[0.5, 0.5], &[]).unwrap_err().contains("2 values"));
        assert!(of(&[], &[0.0]).unwrap_err().contains("zero"));
        assert!(of(&[f32::NAN], &[]).unwrap_err().contains("numbers"));
    }

    #[test]
    fn grey_and_resized() {
        let picture = DynamicImage::from(GrayImage::from_pixel(5, 7, image::Luma([255])));
        let grey = values(&picture, &[1, 1, 2, 3], &ImageOptions::default());
        assert!(grey.len() == 6 && grey.iter().all(|value| (value - 1.0).abs() < 1e-6));
        let options = ImageOptions { resize: Some((4, 2)), ..ImageOptions::default() };
        assert_eq!(prepare(&picture, &takes(&[1, 1, 8, 8]), &options).unwrap().tensor.sizes(), [1, 1, 2, 4]);
    }

    #[test]
    fn cropping_keeps_proportions_and_the_middle() {
        // Six columns, of which the two in the middle are white.
        let picture = DynamicImage::from(GrayImage::from_fn(6, 2, |x, _| {
            image::Luma([if (2..4).contains(&x) { 255 } else { 0 }])
        }));
        let options = ImageOptions { crop: true, ..ImageOptions::default() };
        assert_eq!(values(&picture, &[1, 2, 2], &options), [1.0; 4]);
        assert!(values(&picture, &[1, 2, 2], &ImageOptions::default()).iter().all(|value| *value < 1.0));
        let done = prepare(&picture, &takes(&[1, 2, 2]), &options).unwrap().done;
        assert!(done.starts_with("6x2 resized to 6x2, the middle 2x2, grey"), "{done}");
    }

    #[test]
    fn a_preset_is_what_models_were_trained_with() {
        let options = ImageOptions { preset: Some(Preset::Imagenet), ..ImageOptions::default() };
        // As torchvision: the shorter side of 640x480 to 256, the longer in proportion.
        assert_eq!(options.whole((640, 480), (224, 224)), Ok(Some((341, 256))));
        assert_eq!(options.whole((480, 640), (224, 224)), Ok(Some((256, 341))));
        assert_eq!(options.whole((100, 100), (112, 112)), Ok(Some((128, 128))));
        assert!(options.whole((1, u32::MAX), (224, 224)).is_err());
        let white = DynamicImage::from(RgbImage::from_pixel(300, 300, image::Rgb([255; 3])));
        let values = values(&white, &[1, 3, 8, 8], &options);
        for (channel, expected) in
            [(1.0 - 0.485) / 0.229, (1.0 - 0.456) / 0.224, (1.0 - 0.406) / 0.225].iter().enumerate()
        {
            assert!((values[channel * 64 + 9] - expected).abs() < 1e-5, "{values:?}");
        }
        let own = ImageOptions { mean: vec![0.0], std: vec![1.0], ..options };
        assert_eq!(own.scaling(3), Ok((vec![0.0; 3], vec![1.0; 3])));
    }

    #[test]
    fn inputs_that_take_no_image() {
        let picture = DynamicImage::new_luma8(2, 2);
        for (takes, word) in [(takes(&[4]), "float32"), (takes(&[1, 2, 8, 8]), "2"), (ValueInfo::Int(3), "integer")] {
            let error = prepare(&picture, &takes, &ImageOptions::default()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(size("4x3"), Ok((4, 3)));
        assert!(["4", "0x3", "axb", "99999x99999"].iter().all(|text| size(text).is_err()));
    }
}
