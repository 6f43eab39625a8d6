"""Classification of images: timm's architectures, small ones of each kind."""

import timm
import torch
from row import Method, Row

TITLE = "Classification (timm)"


def image(name, size=64, **options):
    def make():
        module = timm.create_model(name, pretrained=False, num_classes=10, **options)
        return Method(module, [(torch.randn(1, 3, size, size),)])

    return Row(name, make)


def sized(name, size=64, **options):
    """One whose weights depend on the size of the image."""
    return image(name, size, img_size=size, **options)


ROWS = [
    # Convolutions.
    image("efficientnet_lite0"),
    image("tf_efficientnetv2_b0"),
    image("mobilenetv4_conv_small_050"),
    image("mobilenetv3_small_050"),
    image("mobilenet_edgetpu_v2_xs"),
    image("rexnet_100"),
    image("regnety_002"),
    image("regnetz_005"),
    image("convnext_atto"),
    image("convnextv2_atto"),
    image("inception_next_atto"),
    image("repvgg_a0"),
    image("mobileone_s0"),
    image("ghostnet_050"),
    image("ghostnetv2_100"),
    image("ghostnetv3_050"),
    image("hgnet_tiny"),
    image("hgnetv2_b0"),
    image("nf_regnet_b0"),
    image("eca_nfnet_l0", 96),
    image("fbnetc_100"),
    image("hardcorenas_a"),
    image("lcnet_035"),
    image("mnasnet_small"),
    image("semnasnet_050"),
    image("spnasnet_100"),
    image("tinynet_e"),
    image("dla46_c"),
    image("dpn48b"),
    image("ese_vovnet19b_slim_dw"),
    image("hrnet_w18_small"),
    image("skresnet18"),
    image("resnest14d"),
    image("seresnext26d_32x4d"),
    image("res2net50_26w_4s"),
    image("resnetv2_18"),
    image("cspresnet50"),
    image("darknet17"),
    image("gernet_s"),
    image("xception", 96),
    image("legacy_xception", 96),
    image("repghostnet_050"),
    image("starnet_s050"),
    image("shvit_s1"),
    image("fasternet_t0"),
    image("mambaout_femto"),
    image("rdnet_tiny", 64),
    # Attention, alone and with convolutions.
    sized("vit_tiny_patch16_224", depth=4),
    sized("vit_relpos_small_patch16_224", depth=3),
    sized("vit_small_patch16_dinov3", depth=3),
    sized("deit_tiny_patch16_224", depth=4),
    sized("deit3_small_patch16_224", depth=3),
    sized("beit_base_patch16_224", depth=2, embed_dim=192, num_heads=3),
    sized("beitv2_base_patch16_224", depth=2, embed_dim=192, num_heads=3),
    sized("eva02_tiny_patch14_224", 56, depth=4),
    sized("cait_xxs24_224", depth=4),
    sized("xcit_nano_12_p16_224"),
    image("crossvit_tiny_240", 240, depth=((1, 1, 0), (1, 1, 0), (1, 1, 0))),
    sized("convit_tiny", depth=4, local_up_to_layer=3),
    sized("tnt_s_patch16_224", depth=3),
    sized("levit_128s", 128),
    sized("swin_tiny_patch4_window7_224", 112, depths=(2, 2), embed_dim=48, num_heads=(3, 6)),
    sized("swinv2_cr_tiny_224", 112, depths=(2, 2), embed_dim=48, num_heads=(3, 6)),
    image("twins_svt_small", 224, depths=(1, 1, 2, 1)),
    sized("twins_pcpvt_small", depths=(1, 1, 2, 1)),
    sized("visformer_tiny"),
    sized("volo_d1_224"),
    sized("coatnet_pico_rw_224", 96),
    sized("maxvit_pico_rw_256", 128),
    sized("maxxvit_rmlp_nano_rw_256", 128, depths=(1, 1, 1, 1)),
    sized("coat_tiny"),
    sized("coat_lite_tiny"),
    image("gcvit_xxtiny", 224),
    sized("nest_tiny", 128),
    sized("mvitv2_tiny"),
    sized("hiera_tiny_224", 128, stages=(1, 1, 1, 1)),
    sized("vitamin_small_224"),
    image("mobilevit_xxs"),
    image("mobilevitv2_050"),
    image("edgenext_xx_small"),
    image("efficientformer_l1", 224),
    sized("efficientformerv2_s0", 128),
    image("efficientvit_b0"),
    sized("efficientvit_m0", 128),
    image("fastvit_t8"),
    image("tiny_vit_5m_224", 112),
    image("repvit_m0_9"),
    image("swiftformer_xs"),
    image("pvt_v2_b0"),
    sized("pit_ti_224", 96),
    image("davit_tiny", depths=(1, 1, 1, 1)),
    image("caformer_s18"),
    image("convformer_s18"),
    image("botnet26t_256", 256),
    image("halonet26t", 256),
    image("lambda_resnet26t", 64),
    # Products of patches, pooling and recurrence in the place of attention.
    sized("mixer_s32_224"),
    sized("resmlp_12_224"),
    sized("gmlp_ti16_224"),
    image("poolformer_s12"),
    image("poolformerv2_s12"),
    sized("sequencer2d_s", 112, layers=(1, 1, 1, 1)),
]
