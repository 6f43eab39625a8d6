//! Boxes and what is in them, against the values of torchvision.
use crate::support::*;

fn image() -> Tensor {
    floats(&[1, 4, 4, 5], &(0..80).map(|i| (i * 7 % 23) as f32).collect::<Vec<_>>())
}

fn boxes() -> Tensor {
    floats(&[2, 5], &[0.0, 0.5, 1.0, 4.2, 3.0, 0.0, -1.0, 0.0, 2.0, 9.0])
}

#[test]
fn boxes_of_one_size() {
    let sizes = [2, 4, 1, 2];
    let align = |ratio: i64, aligned: bool| {
        let y =
            run("torchvision::roi_align.out", args![image(), boxes(), 0.5, 1, 2, ratio, aligned, out::<f32>(&sizes)]);
        y.unwrap().remove(0)
    };
    let expected = [
        14.1125, 9.5906, 16.1125, 11.5906, 5.8219, 7.3375, 7.8219, 9.3375, 12.0312, 16.1875, 14.0312, 18.1875, 15.3574,
        6.7109, 17.3574, 8.7109,
    ];
    align(2, false).assert_close(&sizes, &expected, 1e-4);
    let expected = [
        7.4875, 12.3812, 9.4875, 14.3812, 9.0437, 6.4625, 11.0437, 8.4625, 7.15, 8.025, 9.15, 10.025, 11.15, 10.4437,
        13.15, 12.4437,
    ];
    align(-1, true).assert_close(&sizes, &expected, 1e-4);
    let outs = (out::<f32>(&sizes), out::<i32>(&sizes));
    let y = run("torchvision::roi_pool.out", args![image(), boxes(), 0.5, 1, 2, outs.0, outs.1]).unwrap();
    y[0].assert_close(
        &sizes,
        &[19.0, 19.0, 21.0, 21.0, 16.0, 19.0, 18.0, 21.0, 13.0, 20.0, 15.0, 22.0, 17.0, 17.0, 19.0, 19.0],
        0.0,
    );
    assert_eq!(y[1], tensor::<i32>(&sizes, &[6, 6, 6, 6, 5, 12, 5, 12, 15, 16, 15, 16, 15, 15, 15, 15]));
}

#[test]
fn bins_that_read_channels_of_their_own() {
    let sizes = [2, 2, 1, 2];
    let outs = || (out::<f32>(&sizes), out::<i32>(&sizes));
    let y = run("torchvision::ps_roi_align.out", args![image(), boxes(), 0.5, 1, 2, 2, outs().0, outs().1]).unwrap();
    y[0].assert_close(&sizes, &[7.5531, 13.8422, 9.0016, 9.0016, 9.5, 12.5938, 13.5, 13.8984], 1e-4);
    assert_eq!(y[1], tensor::<i32>(&sizes, &[0, 1, 2, 3, 0, 1, 2, 3]));
    let y = run("torchvision::ps_roi_pool.out", args![image(), boxes(), 1.0, 1, 2, outs().0, outs().1]).unwrap();
    y[0].assert_close(&sizes, &[11.25, 8.75, 9.5, 12.75, 4.3333, 9.8333, 8.3333, 10.0], 1e-4);
    assert_eq!(y[1], tensor::<i32>(&sizes, &[0, 1, 2, 3, 0, 1, 2, 3]));
}

#[test]
fn boxes_that_stay() {
    let boxes = || floats(&[4, 4], &[0.0, 0.0, 4.0, 4.0, 1.0, 0.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 0.0, 0.0, 4.0, 3.0]);
    let kept = |threshold: f64| {
        let scores = floats(&[4], &[0.5, 0.9, 0.5, 0.8]);
        run("torchvision::nms.out", args![boxes(), scores, threshold, out::<i64>(&[4])]).unwrap().remove(0)
    };
    assert_eq!(kept(0.5), longs(&[2], &[1, 2]));
    assert_eq!(kept(0.7), longs(&[3], &[1, 3, 2]));
    let few = floats(&[3], &[0.0; 3]);
    assert!(run("torchvision::nms.out", args![boxes(), few, 0.5, out::<i64>(&[4])]).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let pool = |boxes: Tensor, bins: i64| {
        let (values, places) = (out::<f32>(&[1, 4, 1, 2]), out::<i32>(&[1, 4, 1, 2]));
        run("torchvision::roi_pool.out", args![image(), boxes, 1.0, 1, bins, values, places])
    };
    assert!(pool(floats(&[1, 5], &[0.0, 0.0, 0.0, 1.0, 1.0]), 2).is_ok());
    assert!(pool(floats(&[1, 5], &[1.0, 0.0, 0.0, 1.0, 1.0]), 2).is_err(), "there is one image");
    assert!(pool(floats(&[1, 5], &[0.0; 5]), 0).is_err() && pool(floats(&[1, 4], &[0.0; 4]), 2).is_err());
    let columns = |offsets: Tensor| {
        let list = [1, 1];
        run(
            "sconce::deform_columns.out",
            args![image(), offsets, (), [2, 2], list, [0, 0], list, out::<f32>(&[1, 16, 12])],
        )
    };
    let offsets = |channels: usize| floats(&[1, channels, 3, 4], &vec![0.0; channels * 12]);
    // Without offsets these are the patches of a plain convolution.
    let plain = columns(offsets(8)).unwrap().remove(0).values::<f32>();
    assert_eq!(plain[12..16], image().values::<f32>()[1..5]);
    assert!(columns(offsets(6)).is_err() && columns(offsets(24)).is_err());
}

#[test]
fn products_by_group() {
    let (rows, own) = (counting(&[3, 2]), counting(&[2, 2, 2]));
    let product = |ends: &[i64]| {
        let ends = longs(&[ends.len()], ends);
        run("aten::_grouped_mm.out", args![rows.clone(), own.clone(), ends, (), (), out::<f32>(&[3, 2])])
    };
    // The first two rows meet [[0, 1], [2, 3]], the last one [[4, 5], [6, 7]].
    assert_eq!(product(&[2, 3]).unwrap()[0], floats(&[3, 2], &[2.0, 3.0, 6.0, 11.0, 46.0, 55.0]));
    // A group may be empty, and rows behind the last one are zeros.
    assert_eq!(product(&[0, 1]).unwrap()[0], floats(&[3, 2], &[6.0, 7.0, 0.0, 0.0, 0.0, 0.0]));
    assert!(product(&[2, 1]).is_err() && product(&[1, 4]).is_err() && product(&[3]).is_err());
}
