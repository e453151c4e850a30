"""Measuring joints against text: data sets, drawing of pairs, metrics, resumable runs, reports."""
