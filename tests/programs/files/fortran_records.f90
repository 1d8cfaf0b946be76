! Fortran's kinds of file: sequential unformatted with record marks, direct
! access, streams with positions, and what inquire says about them.
program fortran_records
  implicit none
  integer, parameter :: i8 = selected_int_kind(18), dp = kind(1d0)
  integer :: unit, i, status, n, record_bytes, failures = 0
  integer(i8) :: bytes, position
  real(dp) :: values(1000), back(1000)
  logical :: there

  values = [(sqrt(real(i, dp)), i = 1, 1000)]

  open(newunit=unit, file='sequential', form='unformatted', status='new')
  do i = 1, 50
    write(unit) i, values(1:i*20)
  end do
  rewind(unit)
  do i = 1, 50
    back = 0
    read(unit) n, back(1:i*20)
    if (n /= i .or. any(back(1:i*20) /= values(1:i*20))) failures = failures + 1
  end do
  call check(failures == 0, '50 unformatted records of growing length')
  read(unit, iostat=status) n
  call check(status < 0, 'then the end of the file')
  backspace(unit)
  backspace(unit)
  read(unit) n
  call check(n == 50, 'backspace to the last record')
  inquire(unit=unit, size=bytes)
  call check(bytes == 50 * 12 + 8 * 20 * (50 * 51 / 2), 'its size is that of data and marks')
  close(unit)

  inquire(iolength=record_bytes) values(1:10)
  open(newunit=unit, file='direct', form='unformatted', access='direct', recl=record_bytes)
  do i = 100, 1, -1
    write(unit, rec=i) values(i:i+9)
  end do
  read(unit, rec=37) back(1:10)
  call check(all(back(1:10) == values(37:46)), 'record 37 of a file written backwards')
  write(unit, rec=37) -values(1:10)
  read(unit, rec=38) back(1:10)
  call check(all(back(1:10) == values(38:47)), 'its neighbour after it was replaced')
  read(unit, rec=200, iostat=status) back(1:10)
  call check(status /= 0, 'a record that is not there')
  close(unit)

  open(newunit=unit, file='stream', form='unformatted', access='stream')
  write(unit) 'abcdef', 7_i8, values(1)
  inquire(unit=unit, pos=position)
  call check(position == 23, 'a stream is at byte 23 after 22 bytes')
  write(unit, pos=3) 'XY'
  read(unit, pos=7) bytes
  call check(bytes == 7, 'an integer read at position 7')
  close(unit)

  inquire(file='stream', exist=there, size=bytes)
  call check(there .and. bytes == 22, 'inquire by name: 22 bytes')
  open(newunit=unit, file='stream', status='new', iostat=status)
  call check(status /= 0, 'status=new on an existing file')
  open(newunit=unit, file='direct')
  close(unit, status='delete')
  inquire(file='direct', exist=there)
  call check(.not. there, 'closed with status=delete')
  if (failures > 0) stop 1

contains

  subroutine check(ok, text)
    logical, intent(in) :: ok
    character(*), intent(in) :: text
    if (ok) then
      print '(2a)', 'ok   ', text
    else
      print '(2a)', 'FAIL ', text
      failures = failures + 1
    end if
  end subroutine
end program
