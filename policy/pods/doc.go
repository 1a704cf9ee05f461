package pods
