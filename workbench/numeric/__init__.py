"""Keys, histograms, exact selection and multisets: torch tensors in and out, on the tensor's own device."""
