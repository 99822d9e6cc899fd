"""How fast is a model, how big, how much energy does it take, before anything runs?"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.predict.capture import Hook, Setup, TrainingPhase
    from penstock.predict.capture.capturing import followable_task, following
    from penstock.predict.capture.explaining import explained
    from penstock.predict.capture.mapping import is_free
    from penstock.predict.capture.recorder import Recorder
    from penstock.predict.capture.setup import TrainingTask, arithmetic, autocast, training_task
    from penstock.predict.device_profile import SHIPPED, DeviceProfile, own_profiles, profile_named
    from penstock.predict.hardware import DEVICES, Chip, Precision, device_named
    from penstock.predict.kernels import ImageLayout, KernelCall, KernelModel
    from penstock.predict.lab import (
        MeasuringSession,
        fit_profile,
        local_chip,
        measure_random_networks,
        read_measurements,
        read_power,
        time_model,
        time_named,
        with_operations,
    )
    from penstock.predict.model_sources import load_hook, offers_hook, setup_of
    from penstock.predict.predicted_curve import predict_curve
    from penstock.predict.prediction import ModelPrediction, PredictedPoint, predict_model
    from penstock.predict.prediction_cache import PredictionCache, PredictionRequest, counts_up_to

__all__ = [
    "DEVICES",
    "SHIPPED",
    "Chip",
    "DeviceProfile",
    "Hook",
    "ImageLayout",
    "KernelCall",
    "KernelModel",
    "MeasuringSession",
    "ModelPrediction",
    "Precision",
    "PredictedPoint",
    "PredictionCache",
    "PredictionRequest",
    "Recorder",
    "Setup",
    "TrainingPhase",
    "TrainingTask",
    "arithmetic",
    "autocast",
    "counts_up_to",
    "device_named",
    "explained",
    "fit_profile",
    "followable_task",
    "following",
    "is_free",
    "load_hook",
    "local_chip",
    "measure_random_networks",
    "offers_hook",
    "own_profiles",
    "predict_curve",
    "predict_model",
    "profile_named",
    "read_measurements",
    "read_power",
    "setup_of",
    "time_model",
    "time_named",
    "training_task",
    "with_operations",
]

__getattr__ = lazy_door(__name__)
