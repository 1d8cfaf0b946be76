! The numbered stream through Fortran's stream access in blocks of 128 Ki words
! (1 MiB), read back in blocks of another length. Argument: size in MiB.
program fortran_stream
  use iso_fortran_env, only: int64
  implicit none
  integer(int64), parameter :: golden = -7046029254386353131_int64
  integer, parameter :: block_words = 131072, odd_words = 100000
  integer(int64) :: words(block_words), sum, total, at, left, wrong
  integer :: unit, i, blocks, status, n
  character(16) :: argument

  blocks = 4
  if (command_argument_count() > 0) then
    call get_command_argument(1, argument)
    i = scan(argument, 'MG')
    read(argument(1:i-1), *) blocks
    if (argument(i:i) == 'G') blocks = blocks * 1024
  end if
  open(newunit=unit, file='stream', access='stream', form='unformatted', status='new')
  do n = 0, blocks - 1
    do i = 1, block_words
      words(i) = (int(n, int64) * block_words + i) * golden
    end do
    write(unit) words
  end do
  inquire(unit=unit, size=total)
  print '(i0, a)', total, ' bytes written'

  rewind(unit)
  sum = 0
  wrong = 0
  at = 0
  left = total / 8
  do while (left > 0)
    n = int(min(left, int(odd_words, int64)))
    read(unit, iostat=status) words(1:n)
    if (status /= 0) exit
    do i = 1, n
      if (words(i) /= (at + i) * golden) wrong = wrong + 1
      sum = ieor(ishftc(sum, 1), words(i))
    end do
    at = at + n
    left = left - n
  end do
  print '(a, i0, a, i0, a, z16.16)', 'read ', at * 8, ' bytes, ', wrong, ' wrong words, sum ', sum
  read(unit, iostat=status) words(1)
  print '(a, l1)', 'end of file: ', status < 0
  close(unit, status='delete')
  if (wrong /= 0 .or. at * 8 /= total) stop 1
end program
