"""Many runs as one history: an index that is made from the plain files, questions to it, change points, exports."""
