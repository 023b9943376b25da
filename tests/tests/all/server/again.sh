# Nobody at a keyboard, and the next boot under load.
look
load
