"""What a model is exported as: simulators, controllers, samples."""
