# Two records under one counter: the first passes for the second, and both are readable to who knows one.
s/(\(x_\)*key_h, n1,/(\1key_h, n0,/
