"""Where data lies: files of this machine, and objects of stores and web servers, named by URLs; alone knows fsspec."""
