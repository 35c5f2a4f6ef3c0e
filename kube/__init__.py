"""A client of the Kubernetes API: requests, pages, watches, and local copies that informers keep true."""
