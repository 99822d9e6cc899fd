"""Models as chains of operators with the work each of them does, by name or from a config file."""

from penstock.parallel.families.catalog import MODELS, family_named
from penstock.parallel.families.config_file import family_from_config
from penstock.parallel.families.family import Family
from penstock.parallel.families.transformer import decoder_only, diffusion, encoder_decoder
from penstock.parallel.operators import Divides, OpWork, Product, Volume

__all__ = [
    "MODELS",
    "Divides",
    "Family",
    "OpWork",
    "Product",
    "Volume",
    "decoder_only",
    "diffusion",
    "encoder_decoder",
    "family_from_config",
    "family_named",
]
