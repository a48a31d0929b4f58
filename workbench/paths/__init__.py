"""What each selector does, as data plus its model, and which path an op takes on a release and a device."""
