//! One client: a slot of bounded bytes, the body that drains it, the actor that controls it.
